package hash

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/test/faultfs"
)

// Two nodes change a file of a directory that both mount, where each sees what the other
// has changed when it opens a file, as with NFS: none of the changes is lost.
func TestUpdate_OnSeveralNodes(t *testing.T) {
	opt := faultfs.Options{CloseToOpen: time.Hour}
	a := faultfs.New(t, opt)
	b := faultfs.Of(t, a.Backing, a.Dir+".b", opt)
	const each = 40
	var all sync.WaitGroup
	for _, m := range []*faultfs.Mount{a, b} {
		path := filepath.Join(m.Dir, "file.scr")
		all.Add(1)
		go func() {
			defer all.Done()
			for range each {
				err := Update(path, func(h *Hash) error {
					n, _ := h.Int("N")
					h.SetInt("N", n+1)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	all.Wait()
	for _, m := range []*faultfs.Mount{a, b} {
		h, err := ReadFile(filepath.Join(m.Dir, "file.scr"))
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := h.Int("N"); n != 2*each {
			t.Errorf("%d changes of %d are in the file", n, 2*each)
		}
	}
}
