package config

import "testing"

func TestFlushPolicy(t *testing.T) {
	for _, x := range []struct {
		every, number int
		on, due       bool
	}{
		{0, 1, false, false},
		{0, 0, false, false},
		{1, 1, true, true},
		{3, 0, true, false},
		{3, 2, true, false},
		{3, 6, true, true},
	} {
		p := (&Config{Values: Values{Flush: x.every}}).FlushPolicy()
		if p.On() != x.on || p.Due(x.number) != x.due {
			t.Errorf("SCR_FLUSH=%d, checkpoint %d: on %v, due %v; want %v, %v", x.every, x.number, p.On(), p.Due(x.number), x.on, x.due)
		}
	}
}
