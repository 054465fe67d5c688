package prefix

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
)

// Bring copies files of one rank to the prefix directory. Every copy of the program's
// files to that directory is made by a Bring. Prefix and Copy must be set; the other
// fields are optional.
type Bring struct {
	Prefix string // absolute
	// Copy copies src to dst and returns when dst is on its medium. It is method Copy
	// or Fetch of a transfer.Copier.
	Copy func(src, dst string, md meta.Meta) error
	// Aside returns the temporary name of file number i, which it has until all of it
	// is copied. If Aside is nil, files are copied under their final names.
	Aside func(to string, i int) string
	// There reports whether file number i is at its destination already, so that it
	// is not copied.
	There func(i int, f redundancy.File, to string) (bool, error)
	// Ready is called before a copied file is renamed to its final name. If it
	// returns an error, the copy is removed and File returns the error.
	Ready func() error
	// Placed is called for each copied file, once it has its final name.
	Placed func(i int, f redundancy.File, to string) error
}

// Destination returns the path that a file of the program has in the prefix directory,
// or an error if the file's description names a path that is not below it.
func Destination(prefix string, f redundancy.File) (string, error) {
	if err := CheckName(f.Meta.File()); err != nil {
		return "", fmt.Errorf("the description of %s names %w", f.Path, err)
	}
	return filepath.Join(prefix, f.Meta.File()), nil
}

// Files copies files, makes their names durable, and returns them with their new paths
// and the same descriptions. It returns at the first error; a later call continues an
// interrupted copy.
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

// File copies file number i to the path to. It does not sync the directory: the caller
// makes the name durable, for example by Part.Enter.
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

// CloneFiles returns the same files with copies of their descriptions. Copying a file
// may change its description, and the originals stay as they were.
func CloneFiles(files []redundancy.File) []redundancy.File {
	var own []redundancy.File
	for _, f := range files {
		own = append(own, redundancy.File{Path: f.Path, Meta: f.Meta.Clone()})
	}
	return own
}
