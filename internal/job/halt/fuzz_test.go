package halt

import (
	"testing"
	"time"
)

// A time that is understood is written so that it is understood the same.
func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"2026-11-21T14:30", "14:30", "14:30:59", "1795300000", "2026-11-21T14:30:00+02:00", "2026-11-21", "24:00", "-1", "1e9", "99999999999999999999"} {
		f.Add(seed)
	}
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseTime(text, now)
		if err != nil {
			return
		}
		if year := at.UTC().Year(); year < 1 || year > 9998 {
			return // RFC 3339 has no such years
		}
		again, err := ParseTime(at.UTC().Format(time.RFC3339), now)
		if err != nil || !again.Equal(at.Truncate(time.Second)) {
			t.Fatalf("%q is %v, which is read as %v (%v)", text, at, again, err)
		}
	})
}
