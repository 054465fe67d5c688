package prefix

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
)

// Bring copies files of one rank to the prefix directory. All copies of the program's
// files to it use Bring. Its fields select variants; Prefix and Copy must be set.
type Bring struct {
	Prefix string // absolute
	// Copy makes dst of src and returns when dst is on its medium: transfer.Copier's
	// Copy, or its Fetch.
	Copy func(src, dst string, md meta.Meta) error
	// Aside is a temporary name for file number i until it is whole. nil: files are
	// copied under their own names.
	Aside func(to string, i int) string
	// There reports whether file number i need not be copied.
	There func(i int, f redundancy.File, to string) (bool, error)
	// Ready is asked before a file that was copied gets its own name. Its error ends
	// the copy.
	Ready func() error
	// Placed is called for each file that was copied and has its own name.
	Placed func(i int, f redundancy.File, to string) error
}

// Destination is the path of a file of the program in the prefix directory. It is an
// error if the description names a path outside.
func Destination(prefix string, f redundancy.File) (string, error) {
	if err := CheckName(f.Meta.File()); err != nil {
		return "", fmt.Errorf("the description of %s names %w", f.Path, err)
	}
	return filepath.Join(prefix, f.Meta.File()), nil
}

// Files copies files, makes their names durable, and returns them with their new paths
// and descriptions. It continues interrupted copies.
func (b *Bring) Files(files []redundancy.File) ([]redundancy.File, error) {
	var placed []redundancy.File
	for i, f := range files {
		to, err := Destination(b.Prefix, f)
		if err == nil {
			err = b.File(i, f, to)
		}
		if err != nil {
			return nil, err
		}
		placed = append(placed, redundancy.File{Path: to, Meta: f.Meta})
	}
	return placed, syncNames(b.Prefix, placed)
}

// File copies file number i to a path. The caller makes its name durable, as Part.Enter
// does.
func (b *Bring) File(i int, f redundancy.File, to string) error {
	if b.There != nil {
		if there, err := b.There(i, f, to); there || err != nil {
			return err
		}
	}
	if err := b.copy(i, f, to); err != nil {
		return err
	}
	if b.Placed == nil {
		return nil
	}
	return b.Placed(i, f, to)
}

func (b *Bring) copy(i int, f redundancy.File, to string) error {
	if b.Aside == nil {
		return b.Copy(f.Path, to, f.Meta)
	}
	aside := b.Aside(to, i)
	err := b.Copy(f.Path, aside, f.Meta)
	if err == nil && b.Ready != nil {
		err = b.Ready()
	}
	if err == nil {
		err = os.Rename(aside, to)
	}
	if err != nil {
		_ = os.Remove(aside) // the first error is the one to report
	}
	return err
}

// CloneFiles returns the same files with copies of their descriptions, which a copy of
// the file may change.
func CloneFiles(files []redundancy.File) []redundancy.File {
	var own []redundancy.File
	for _, f := range files {
		own = append(own, redundancy.File{Path: f.Path, Meta: f.Meta.Clone()})
	}
	return own
}
