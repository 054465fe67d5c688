package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestLogger_Levels(t *testing.T) {
	for debug, want := range []string{"warn once", "warn once info local", "warn once info local detail"} {
		for rank := range 2 {
			var b bytes.Buffer
			l := &Logger{Out: &b, Rank: rank, Node: "n", Debug: debug}
			l.Warn("warn")
			l.WarnOnce("%s", "once")
			l.WarnOnce("%s", "once")
			l.Info("info")
			l.Local("local")
			l.Detail("detail")
			var got []string
			for line := range strings.Lines(b.String()) {
				begin, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " on n: ")
				if !ok || begin != "SCR: rank "+string(rune('0'+rank)) {
					t.Errorf("line %q", line)
				}
				got = append(got, text)
			}
			expect := want
			if rank == 1 {
				expect = strings.Replace(want, " info", "", 1)
			}
			if strings.Join(got, " ") != expect {
				t.Errorf("SCR_DEBUG=%d, rank %d: %q, want %q", debug, rank, got, expect)
			}
		}
	}
	(&Logger{}).Warn("to nobody")
}

// writes counts the calls of Write.
type writes struct{ list []string }

func (w *writes) Write(p []byte) (int, error) {
	w.list = append(w.list, string(p))
	return len(p), nil
}

func TestLogger_OneWriteAndOneLine(t *testing.T) {
	var w writes
	l := &Logger{Out: &w, Node: "n"}
	l.Warn("a %s\nb", "x\ny")
	if len(w.list) != 1 || w.list[0] != "SCR: rank 0 on n: a x; y; b\n" {
		t.Errorf("%q", w.list)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB",
		1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
