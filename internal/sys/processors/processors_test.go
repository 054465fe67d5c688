package processors

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var stat = `cpu  100 0 50 4000 30 0 0 0 0 0
cpu0 50 1 25 1000 10 2 3 4 77 77
cpu1 50 0 25 2000 5 0 0 0 0 0
cpu12 0 0 0 1000 15 0 0 0 0 0
intr ` + strings.Repeat("1 2 3 ", 20000)

func TestRead_OfTheMask(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		want Usage
	}{
		{[]int{0}, Usage{Processors: 1, Busy: 850 * time.Millisecond, Idle: 10100 * time.Millisecond}},
		{[]int{1, 12}, Usage{Processors: 2, Busy: 750 * time.Millisecond, Idle: 30200 * time.Millisecond}},
	} {
		got, err := read(strings.NewReader(stat), func(cpu int) bool { return slices.Contains(c.cpus, cpu) })
		if err != nil || got != c.want {
			t.Errorf("processors %v: %v, %v, not %v", c.cpus, got, err, c.want)
		}
	}
}

func TestRead_Unreadable(t *testing.T) {
	for _, text := range []string{"", "cpu 1 2 3 4 5 6 7 8\n", "cpu0 1 2 3\n", "cpu0 1 2 3 x 5 6 7 8\n", "cpu0 1 2 3 4 99999999999999999999 6 7 8\n",
		strings.Repeat("x", 1<<17)} {
		if got, err := read(strings.NewReader(text), func(int) bool { return true }); err == nil {
			t.Errorf("%.40q: %v", text, got)
		}
	}
}

// The machine on which the test runs has processors, and time passes on them.
func TestNow(t *testing.T) {
	before, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
		_ = strings.Repeat("x", 1000)
	}
	after, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	u := after.Since(before)
	if u.Processors == 0 || u.Busy+u.Idle == 0 || u.Own == 0 {
		t.Errorf("%+v", u)
	}
	if back := before.Since(after); back.Busy != 0 || back.Idle != 0 || back.Own != 0 {
		t.Errorf("%+v", back)
	}
}
