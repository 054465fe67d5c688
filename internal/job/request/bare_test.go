package request

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/hash"
)

// A file may have a number without a request, or a request that nobody has made: somebody else
// can have written it.
func TestAsk_Bare(t *testing.T) {
	for _, state := range []string{"", string(Requested), string(Failed)} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, ".scr"), 0o700); err != nil {
			t.Fatal(err)
		}
		h := hash.New()
		if e := h.Set("CHECKPOINT", nil).Set("7", nil); state != "" {
			e.SetValue("STATE", state)
		}
		if err := hash.WriteShared(Path(dir), h); err != nil {
			t.Fatal(err)
		}
		if r, ok, err := Read(dir, 7); !ok || err != nil || r.ID != 7 {
			t.Errorf("%q: %+v %v %v", state, r, ok, err)
		}
		id, err := Ask(dir, "", "asker", Wish{Stop: true})
		if err != nil || id < 7 {
			t.Errorf("%q: %d, %v", state, id, err)
		}
		r, ok, err := Read(dir, id)
		if err != nil || !ok || !r.Wish().Stop {
			t.Errorf("%q: %+v %v %v", state, r, ok, err)
		}
		if done, err := TakeBack(dir, id, "asker"); !done || err != nil {
			t.Errorf("%q: it is not taken back: %v", state, err)
		}
	}
}
