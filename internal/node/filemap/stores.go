package filemap

import (
	"path/filepath"

	"github.com/goscr/goscr/hash"
)

// StoresFile is the file of a control directory that lists the directories of the job in
// stores of its own, besides that of SCR_CACHE_BASE, so that commands which clean up the
// node find all of them, also when the filemaps name none any more or cannot be read:
//
//	ALLOCATION = <id>             the resource manager's id of the allocation, if there is one
//	STORE / <directory>           the job's directory in a store
//	                    SHARED = 1    other nodes may use it, too
//
// There is none if there is no such store, and the allocation has the id of the job.
const StoresFile = "stores.scrinfo"

const (
	keyAllocation = "ALLOCATION"
	keyStore      = "STORE"
	keyIsShared   = "SHARED"
)

// Stores is the contents of a StoresFile.
type Stores struct {
	Allocation string          // "" if it is not known
	Dirs       map[string]bool // absolute paths, and whether nodes share the directory
}

// ReadStores reads the list of a control directory; it is empty if there is none.
func ReadStores(control string) (Stores, error) {
	h, err := hash.ReadOrNew(filepath.Join(control, StoresFile))
	s := Stores{Allocation: h.Text(keyAllocation), Dirs: map[string]bool{}}
	for dir, of := range h.Get(keyStore).All() {
		if filepath.IsAbs(dir) && filepath.Clean(dir) == dir {
			s.Dirs[dir] = of.Text(keyIsShared) == "1"
		}
	}
	return s, err
}

// Write writes the list of a control directory, unless it is there already.
func (s Stores) Write(control string) error {
	path := filepath.Join(control, StoresFile)
	h := hash.New()
	if s.Allocation != "" {
		h.SetValue(keyAllocation, s.Allocation)
	}
	for dir, shared := range s.Dirs {
		h.SetKV(keyStore, dir)
		if shared {
			h.Get(keyStore, dir).SetValue(keyIsShared, "1")
		}
	}
	if there, err := hash.ReadOrNew(path); err == nil && there.Equal(h) { // empty if there is no list, and none is needed
		return nil
	}
	return hash.WriteFile(path, h)
}
