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
