package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/observe/report"
)

func TestLines(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(1000, 0)
	l := &Lines{
		Log: &report.Logger{Out: &out, Node: "node7", Rank: 3, Debug: 1}, What: "flush", Each: 10 * time.Second,
		now: func() time.Time { return clock },
	}
	l.Expect(600 << 20)
	l.Expect(400 << 20)
	for range 10 { // 20 MiB/s for 45 s
		clock = clock.Add(4500 * time.Millisecond)
		l.Add(90 << 20)
	}
	clock = clock.Add(5 * time.Second)
	l.Add(100 << 20) // all of it
	want := `SCR: rank 3 on node7: flush: 270.0 MiB of 1000.0 MiB, 20.0 MiB/s, 37s left
SCR: rank 3 on node7: flush: 540.0 MiB of 1000.0 MiB, 20.0 MiB/s, 23s left
SCR: rank 3 on node7: flush: 810.0 MiB of 1000.0 MiB, 20.0 MiB/s, 10s left
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	l.Log.Debug = 0
	clock = clock.Add(time.Hour)
	l.Expect(1 << 20)
	l.Add(1)
	if strings.Contains(out.String(), "flush") {
		t.Errorf("where nobody wants to know: %s", out.String())
	}
}

func TestOr(t *testing.T) {
	Or(nil).Expect(1)
	Or(nil).Add(1)
	l := &Lines{Log: &report.Logger{}}
	Or(l).Add(7)
	if l.done != 7 {
		t.Error("not passed on")
	}
}
