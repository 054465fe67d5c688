package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Metadata is the directory below the prefix directory in which goscr stores its own
// files:
//
//	index.scr                    the datasets in the prefix directory
//	flush.scr                    the location of each dataset
//	restart.scr                  the checkpoint that the program is reading
//	scr.dataset.<id>/            the metadata of a dataset:
//	    summary.scr              its description
//	    rank2file, rank2file.*   its files, by rank
//	    <rank>.scrfilemap        the files of one rank, until all ranks have copied theirs
//	    <m>_of_<n>_in_<r>.xor    a redundancy file that was scavenged
const Metadata = trust.Metadata

// datasetPrefix begins the name of a dataset's metadata directory.
const datasetPrefix = "scr.dataset."

func metadataPath(prefix, name string) string { return filepath.Join(prefix, Metadata, name) }

// Dir returns the path of the metadata directory of a dataset.
func Dir(prefix string, id int) string { return metadataPath(prefix, datasetPrefix+strconv.Itoa(id)) }

// IDs returns the ids of all datasets that have a metadata directory, lowest first.
func IDs(prefix string) ([]int, error) {
	entries, err := trust.Root(prefix).ReadDir(filepath.Join(prefix, Metadata))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ids := hash.New() // Ints sorts its keys
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), datasetPrefix); ok {
			ids.Set(id, nil)
		}
	}
	return ids.Ints(), nil
}

// makeMetadata makes the directory for goscr's own files.
func makeMetadata(prefix string) error { return hash.MakeDirs(filepath.Join(prefix, Metadata)) }

// update changes the file called name in the directory Metadata, under the lock of that
// file.
func update(prefix, name string, change func(*hash.Hash) error) error {
	if err := makeMetadata(prefix); err != nil {
		return err
	}
	return hash.Update(metadataPath(prefix, name), change)
}

// updateRecord is update for a file that holds a record.
func updateRecord[T any](prefix, name string, change func(*T)) error {
	if err := makeMetadata(prefix); err != nil {
		return err
	}
	return hash.UpdateRecord(metadataPath(prefix, name), func(record *T) error {
		change(record)
		return nil
	})
}

// CheckName checks the name of a program's file, relative to the prefix directory, that
// was read from disk. It returns an error if the name is of a path outside the prefix
// directory, or in goscr's own directory.
func CheckName(name string) error {
	path := filepath.Clean(name)
	if !filepath.IsLocal(name) || path == "." || path == Metadata || strings.HasPrefix(path, Metadata+string(filepath.Separator)) {
		return fmt.Errorf("%q, which is not a file of the program below the prefix directory", name)
	}
	return nil
}

// RedundancyName matches names of redundancy files: the member, counted from 1, the
// size of the set, the lowest rank in it, and the scheme.
var RedundancyName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{1,9})_of_([0-9]{1,9})_in_([0-9]{1,9})\.(xor|partner|rs)$`)
})

// IsRedundancy reports whether name has the form of a redundancy file's name.
func IsRedundancy(name string) bool { return RedundancyName().MatchString(name) }

// RemoveEmpty removes the directories between the prefix directory and a file of it that
// was deleted, the innermost first, until one is not empty. A file in place of one stays.
func RemoveEmpty(prefix, path string) { removeEmpty(prefix, path, prefix) }

// removeEmpty is RemoveEmpty up to a directory that was there before.
func removeEmpty(prefix, path, before string) {
	for d := filepath.Dir(path); d != prefix && d != before && trust.Root(prefix).Rmdir(d) == nil; d = filepath.Dir(d) {
	}
}

// syncNames makes the names of files in the prefix directory durable.
func syncNames(prefix string, files []redundancy.File) error {
	synced := map[string]bool{}
	for _, f := range redundancy.Counted(files) {
		for d := filepath.Dir(f.Path); !synced[d]; d = filepath.Dir(d) { // the flush may have made some of these directories
			// A directory may give permission to search it, and not to read it, which a
			// sync needs.
			if err := trust.Root(prefix).SyncDir(d); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			synced[d] = true
			if d == prefix || d == "/" {
				break
			}
		}
	}
	return nil
}
