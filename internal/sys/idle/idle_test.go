package idle

import (
	"io"
	"strings"
	"testing"
	"time"
)

// texts makes a meter of processors 1 and 2 read these texts, one after the other.
func texts(list ...string) *Meter {
	return &Meter{
		may: func(cpu int) bool { return cpu == 1 || cpu == 2 },
		stat: func() (io.ReadCloser, error) {
			text := list[0]
			list = list[1:]
			return io.NopCloser(strings.NewReader(text)), nil
		},
	}
}

const (
	first  = "cpu  9 9 9 9 9 9 9\ncpu0 1 1 1 1000 1 1 1\ncpu1 10 20 30 400 5 0 0 0 0 0\ncpu2 0 0 0 100 0 0\ncpu3 1 1 1 1 1 1\nintr 1 2 3\n"
	second = "cpu  9 9 9 9 9 9 9\ncpu0 1 1 1 9000 1 1 1\ncpu1 90 30 90 500 15 0 0 0 0 0\ncpu2 0 0 0 180 0 0\ncpu3 1 1 1 1 1 1\nintr 1 2 3\n"
)

func TestMeter(t *testing.T) {
	for ranks, want := range map[int]time.Duration{1: 2 * time.Second, 2: 2 * time.Second, 4: time.Second, 8: time.Second / 2} {
		m := texts(first, second, second, first)
		if _, err := m.Lap(1); err != nil {
			t.Fatal(err)
		}
		// Niced work is 100 ms, idle 1,800, and waits 100: of half of the node's processors.
		for _, want := range []time.Duration{want, 0, 0} {
			if got, err := m.Lap(ranks); err != nil || got != want {
				t.Errorf("%d ranks: %v %v, want %v", ranks, got, err, want)
			}
		}
	}
}

func TestMeter_Bad(t *testing.T) {
	for _, text := range []string{"", "cpu0 1 1 1 1 1\n", "cpu1 1 x 1 1 1\n", "cpu1 1 1 1 99999999999999999999 1\n", "cpux 1 1 1 1 1\n", "cpu1 1 1\n"} {
		if got, err := texts(text).Lap(1); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A processor that waits is spare. The test says nothing of how much: the machine may be busy.
func TestNew(t *testing.T) {
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if m.since.may < 1 || m.since.may > m.since.all {
		t.Errorf("%+v", m.since)
	}
	for range 3 {
		if spare, err := m.Lap(1); err != nil || spare < 0 {
			t.Error(spare, err)
		}
	}
}
