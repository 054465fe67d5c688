package eventlog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Whatever comes over the recorder's socket, it is read to its end, and every record is one
// line of text.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"Name":"x"}{"Type":"FLUSH","Note":"a\nb","Dataset":7,"Seconds":1.5,"Start":"2026-01-02T03:04:05Z"}`,
		`{}{"Transfer":true,"From":"/a","To":"/b","Bytes":-1,"Files":9e18}`, `{}{"Time":"0000-00-00"}`, "[[[[", `{}{"Job":{"Host":"a, b"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, next, err := Receive(bytes.NewReader(data))
		if err != nil {
			return
		}
		for n := 0; ; n++ {
			r, err := next()
			if err != nil {
				return
			}
			if n > len(data) {
				t.Fatal("more records than bytes")
			}
			if line := r.Line(); strings.ContainsAny(line, "\n\r\x00\x1b") {
				t.Fatalf("%q is not a line", line)
			}
			if _, err := json.Marshal(r); err != nil && r.Time.Year() < 10000 && r.Start.Year() < 10000 {
				t.Fatal(err)
			}
		}
	})
}

// Whatever is in a log, a line that is read is one that can be written, and read again.
func FuzzParse(f *testing.F) {
	seconds, status := 1.5, 3
	r := Record{Type: "RUN_END", Note: "a\nb", Seconds: &seconds, Run: &Run{Number: 1, Status: &status, Signal: 9, NodeList: "n[0-3]"}}
	f.Add(r.Line())
	r = Record{Type: "WRITE", Dataset: 7, Bytes: Count(1), Spread: &Spread{Most: 2, Rank: 5, Node: `"<script>`}}
	f.Add(r.Line())
	f.Add(`2026-11-21T00:01:56: host=node0, jobid="a, b", xfer=FLUSH, from="/a", to="/b", start=2026-11-21T00:01:55, files=256`)
	f.Add(`2026-11-21T00:01:56: event="`)
	f.Fuzz(func(t *testing.T, line string) {
		r, err := Parse(line)
		if err != nil {
			return
		}
		again := r.Line()
		r2, err := Parse(again)
		if err != nil {
			t.Fatalf("%q, written as %q: %v", line, again, err)
		}
		if third := r2.Line(); third != again {
			t.Fatalf("%q, then %q", again, third)
		}
	})
}
