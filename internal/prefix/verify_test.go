package prefix

import (
	"strings"
	"testing"
)

// broken panics when it is told of progress.
type broken struct{}

func (broken) Expect(int64) {}
func (broken) Add(int64)    { panic("no such meter") }

// A panic in one of the goroutines that read the files is a problem of each file, and ends
// nothing.
func TestVerify_Panics(t *testing.T) {
	s := newSite(t)
	must(t, s.flush(1, 3, same))
	x, err := ReadIndex(s.dir)
	must(t, err)
	v, err := Verify(s.dir, x.ByID(1), broken{})
	must(t, err)
	if len(v.Problems) != 6 || !strings.Contains(v.Problems[0], "internal error: no such meter") {
		t.Errorf("%d problems: %.200q", len(v.Problems), v.Problems)
	}
	if v, err := Verify(s.dir, x.ByID(1), nil); err != nil || len(v.Problems) > 0 || v.Files != 6 {
		t.Errorf("%+v, %v", v, err)
	}
}
