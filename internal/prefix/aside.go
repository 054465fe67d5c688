package prefix

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Way is the program that copies a file to the prefix directory. Each has temporary names
// of its own, since two of them may copy the same file at the same time.
type Way string

// The ways.
const (
	ByFlush   Way = "flush" // a job, or scr_transfer for it
	ByCopy    Way = "copy"  // scr_copy
	ByRebuild Way = "built" // scr_index --build
)

// Aside returns the temporary path of a file until the files of all ranks have been
// copied. It is in the directory of the final path to. The name is computed from the final
// name, so that an interrupted copy can be continued, and has a fixed length, so that it is
// never too long for the file system.
func Aside(to string, id int, by Way) string {
	sum := sha256.Sum256([]byte(filepath.Base(to)))
	return filepath.Join(filepath.Dir(to), fmt.Sprintf("%s%x.%s", asideOf(id), sum[:12], by))
}

// asideOf returns the prefix of all temporary names of a dataset.
func asideOf(id int) string { return fmt.Sprintf(".scr.%d.", id) }

// RemoveAsides removes temporary files of a dataset from directories below the prefix directory.
func RemoveAsides(prefix string, id int, dirs []string) error {
	var first error
	for _, dir := range dirs {
		if _, err := removeAsides(prefix, id, dir, nil); first == nil {
			first = err
		}
	}
	return first
}

// removeAsides removes temporary files of a dataset from a directory, except those of which
// keep, if it is not nil, is true, and returns how many.
func removeAsides(prefix string, id int, dir string, keep func(path string) bool) (removed int, err error) {
	entries, err := trust.Root(prefix).ReadDir(dir)
	for _, e := range entries {
		switch Way(strings.TrimPrefix(filepath.Ext(e.Name()), ".")) {
		case ByFlush, ByCopy, ByRebuild:
			path := filepath.Join(dir, e.Name())
			if !strings.HasPrefix(e.Name(), asideOf(id)) || keep != nil && keep(path) {
				continue
			}
			if e := trust.Root(prefix).Remove(path); e != nil {
				err = errors.Join(err, e)
			} else {
				removed++
			}
		}
	}
	return removed, err
}

// isAside reports whether a file of a list has a temporary name.
func isAside(prefix string, f redundancy.File) bool {
	return f.Path != filepath.Join(prefix, f.Meta.File())
}

// DiscardAsides removes those files of a list that have temporary names, and directories
// that become empty by this. A directory in which there was none may be one that the user has made.
func DiscardAsides(prefix string, files []redundancy.File) error {
	var first error
	for _, f := range files {
		if !isAside(prefix, f) {
			continue
		}
		switch err := trust.Root(prefix).Remove(f.Path); {
		case err == nil:
			RemoveEmpty(prefix, f.Path)
		case !errors.Is(err, fs.ErrNotExist) && first == nil:
			first = err
		}
	}
	return first
}
