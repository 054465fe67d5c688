package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Bring copies files of one rank to the prefix directory. All copies of the program's
// files to it use Bring. It copies a file to a temporary name beside its final name: a
// file that already has the final name may belong to an older dataset, which must stay
// whole until all ranks have copied all their files. Prefix, Copy and Aside must be set;
// the other fields are optional.
type Bring struct {
	Prefix string // absolute
	// Copy copies src to dst and returns when dst is on its medium. It is the method Copy
	// or Fetch of a transfer.Copier.
	Copy func(src, dst string, md meta.Meta) error
	// Aside returns the temporary path of a file whose final path is to.
	Aside func(to string) string
	// There reports whether a file has been copied to its temporary path before.
	There func(f redundancy.File, aside string) (bool, error)
	// Ready is called after a file was copied. Its error ends the copy.
	Ready func() error
	// Copied is called for each file that was copied.
	Copied func(f redundancy.File) error
}

// Destination returns the path that a file of the program has in the prefix directory,
// or an error if the file's description names a path that is not below it.
func Destination(prefix string, f redundancy.File) (string, error) {
	if err := CheckName(f.Meta.File()); err != nil {
		return "", fmt.Errorf("the description of %s names %w", f.Path, err)
	}
	return filepath.Join(prefix, f.Meta.File()), nil
}

// Files copies files, and returns them with their temporary paths and their
// descriptions. It continues interrupted copies. Files that are counted with another rank,
// which copies them, are returned with their final paths. When it returns, the contents of the
// files are durable, but not their names.
func (b *Bring) Files(files []redundancy.File) ([]redundancy.File, error) {
	var copied []redundancy.File
	for _, f := range files {
		to, err := Destination(b.Prefix, f)
		switch {
		case err != nil:
		case f.Meta.Shared():
			f.Path, f.Below = to, trust.Root(b.Prefix)
		default:
			f, err = b.File(f, to)
		}
		if err != nil {
			return copied, err
		}
		copied = append(copied, f)
	}
	return copied, nil
}

// File copies a file whose final path is to, and returns it with its temporary path.
func (b *Bring) File(f redundancy.File, to string) (redundancy.File, error) {
	aside := redundancy.File{Path: b.Aside(to), Meta: f.Meta, Below: trust.Root(b.Prefix)}
	if b.There != nil {
		if there, err := b.There(f, aside.Path); there || err != nil {
			return aside, err
		}
	}
	below := trust.Root(b.Prefix)
	there := b.there(filepath.Dir(to))
	err := b.Copy(f.Path, aside.Path, f.Meta)
	if err == nil && b.Ready != nil {
		err = b.Ready()
	}
	if err == nil && b.Copied != nil {
		err = b.Copied(f)
	}
	if err != nil {
		if !errors.Is(err, transfer.ErrSame) { // else the file itself would be deleted
			_ = below.Remove(aside.Path) // the first error is the one to report
		}
		removeEmpty(b.Prefix, aside.Path, there)
	}
	return aside, err
}

// there returns the innermost directory on the way to dir that is there. Copy makes the others.
func (b *Bring) there(dir string) string {
	for dir != b.Prefix {
		if _, err := trust.Root(b.Prefix).Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// CloneFiles returns the same files with copies of their descriptions. Copying a file
// may change its description, and the originals stay as they were.
func CloneFiles(files []redundancy.File) []redundancy.File {
	var own []redundancy.File
	for _, f := range files {
		own = append(own, redundancy.File{Path: f.Path, Meta: f.Meta.Clone(), Below: f.Below})
	}
	return own
}
