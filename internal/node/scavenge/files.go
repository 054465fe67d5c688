package scavenge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// written returns the entry of a dataset in the index. It is an error if the program
// wrote the dataset directly to the prefix directory and did not complete it: then no
// cache has files of it.
func written(prefixDir string, id int) (prefix.Entry, error) {
	x, err := prefix.ReadIndex(prefixDir)
	if err != nil {
		return prefix.Entry{}, err
	}
	e := x.ByID(id)
	if e.Bypass() && !e.Complete {
		err = fmt.Errorf("dataset %d (%s) was written to the prefix directory by the program, which did not complete it: "+
			"there is nothing of it in the caches to make it whole", id, e.Name)
	}
	return e, err
}

// syncFile writes a file to its medium.
func syncFile(file redundancy.File) error {
	f, err := file.Below.OpenFile(file.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) { // the mode of the file may not let its owner read it
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(trust.Sync(f), f.Close())
}

// asWritten returns those files of a list that are not compressed.
func asWritten(files []redundancy.File) (list []redundancy.File) {
	for _, f := range files {
		if _, other := f.Meta.Stored(); !other {
			list = append(list, f)
		}
	}
	return list
}
