package transfer

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// machine is a clock that only copying and waiting move on.
type machine struct {
	now  time.Time
	used time.Duration
}

func (m *machine) pace(l Limits) *Pace {
	return &Pace{Limits: l, Used: func() time.Duration { return m.used },
		now:  func() time.Time { return m.now },
		Wait: func(d time.Duration) error { m.now = m.now.Add(d); return nil }}
}

// work copies pieces that take a time each, and part of it of a processor.
func (m *machine) work(t *testing.T, p *Pace, pieces, bytes int, takes, cpu time.Duration) (seconds float64) {
	began := m.now
	for range pieces {
		m.now, m.used = m.now.Add(takes), m.used+cpu
		if err := p.Spent(bytes); err != nil {
			t.Fatal(err)
		}
	}
	return m.now.Sub(began).Seconds()
}

func TestPace_KeepsLimits(t *testing.T) {
	const pieces, size = 1000, 1 << 20
	for name, c := range map[string]struct {
		limits     Limits
		takes, cpu time.Duration
		want       float64 // seconds
	}{
		"no limit":                  {Limits{}, time.Millisecond, time.Millisecond, 1},
		"bandwidth":                 {Limits{Bandwidth: 10 << 20}, time.Millisecond, 0, 100},
		"bandwidth, slow disk":      {Limits{Bandwidth: 10 << 20}, 90 * time.Millisecond, 0, 100},
		"bandwidth that none can":   {Limits{Bandwidth: 10 << 20}, 200 * time.Millisecond, 0, 200},
		"processor":                 {Limits{CPU: 0.25}, 3 * time.Millisecond, 2 * time.Millisecond, 8},
		"both, bandwidth the less":  {Limits{1 << 20, 0.5}, time.Millisecond, time.Millisecond, 1000},
		"both, processor the less":  {Limits{1000 << 20, 0.01}, time.Millisecond, time.Millisecond, 100},
		"limit above what there is": {Limits{1000 << 30, 50}, time.Millisecond, time.Millisecond, 1},
	} {
		m := &machine{now: time.Unix(1000, 0), used: time.Hour}
		p := m.pace(c.limits)
		p.Begin()
		if got := m.work(t, p, pieces, size, c.takes, c.cpu); got < 0.98*c.want || got > 1.02*c.want {
			t.Errorf("%s: took %.2f s, want %.2f", name, got, c.want)
		}
	}
}

// What was slow for a while may be faster after it, but not for long.
func TestPace_MakesUpForLittle(t *testing.T) {
	m := &machine{now: time.Unix(1000, 0)}
	p := m.pace(Limits{Bandwidth: 1000})
	m.work(t, p, 1, 1000, 0, 0)
	m.now = m.now.Add(time.Hour)
	if got := m.work(t, p, 100, 1000, 0, 0); got < 98 || got > 100 {
		t.Errorf("100 s of bytes after an hour of none took %.1f s", got)
	}
}

// What is not worth a wait while there is more to copy is waited for in the end.
func TestPace_Settle(t *testing.T) {
	m := &machine{now: time.Unix(1000, 0)}
	p := m.pace(Limits{Bandwidth: 1000})
	if got := m.work(t, p, 1, 40, 0, 0); got != 0 {
		t.Errorf("waited %.3f s", got)
	}
	must(t, p.Rest())
	if got := m.now.Sub(time.Unix(1000, 0)); got != 40*time.Millisecond {
		t.Errorf("40 bytes at 1000 a second took %v", got)
	}
}

func TestLowerPriority(t *testing.T) {
	done := make(chan [3]int)
	go func() { // the thread ends with it
		runtime.LockOSThread()
		var raw [3]int
		for i := range raw {
			raw[i], _ = unix.Getpriority(unix.PRIO_PROCESS, 0)
			LowerPriority()
		}
		done <- raw
	}()
	raw := <-done
	for i := 1; i < len(raw); i++ {
		if want := max(raw[i-1]-niceness, 1); raw[i] != want { // 20 less the niceness
			t.Errorf("from %d to %d, want %d", raw[i-1], raw[i], want)
		}
	}
}

func TestPace_Stops(t *testing.T) {
	stop := make(chan struct{})
	p := &Pace{Limits: Limits{Bandwidth: 1}, Wait: UntilStopped(stop)}
	time.AfterFunc(10*time.Millisecond, func() { close(stop) })
	if err := p.Spent(1 << 30); err != ErrStopped { // would take 34 years
		t.Error(err)
	}
	if err := p.Spent(0); err != ErrStopped {
		t.Error(err)
	}
}

func TestCopy_StopsWhereStepSaysSo(t *testing.T) {
	src, md, _ := source(t, 1000)
	c := NewCopier(300)
	var pieces []int
	c.Step = func(n int) error { pieces = append(pieces, n); return nil }
	must(t, c.Copy(src, filepath.Join(t.TempDir(), "dst"), md))
	if len(pieces) != 4 || pieces[3] != 100 {
		t.Errorf("pieces of %v bytes", pieces)
	}
	c.Step = func(int) error { return ErrStopped }
	if err := c.Copy(src, filepath.Join(t.TempDir(), "dst"), md); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}
