package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
)

// Metadata is the directory below the prefix directory that is goscr's own:
//
//	index.scr                    which datasets there are
//	flush.scr                    where datasets are
//	restart.scr                  what the program reads
//	scr.dataset.<id>/            what goscr keeps about a dataset:
//	    summary.scr              its description
//	    rank2file, rank2file.*   its files, by rank
//	    <rank>.scrfilemap        the files of a rank, until those of all ranks are there
//	    <m>_of_<n>_in_<r>.xor    redundancy that was scavenged
const Metadata = ".scr"

// datasetPrefix is what the directory of a dataset begins with.
const datasetPrefix = "scr.dataset."

func metadataPath(prefix, name string) string { return filepath.Join(prefix, Metadata, name) }

// Dir is the directory with what goscr itself keeps about a dataset.
func Dir(prefix string, id int) string { return metadataPath(prefix, datasetPrefix+strconv.Itoa(id)) }

// IDs returns the numbers of all datasets that goscr keeps anything about in the
// prefix directory, lowest first.
func IDs(prefix string) []int {
	entries, _ := os.ReadDir(filepath.Join(prefix, Metadata)) // none is there if it cannot be read
	ids := hash.New()                                         // sorts numbers
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), datasetPrefix); ok {
			ids.Set(id, nil)
		}
	}
	return ids.Ints()
}

// makeMetadata makes the directory that is goscr's own.
func makeMetadata(prefix string) error { return os.MkdirAll(filepath.Join(prefix, Metadata), 0o777) }

// update changes one of goscr's own files, of which there is one in a prefix
// directory, while no other process does.
func update(prefix, name string, change func(*hash.Hash) error) error {
	if err := makeMetadata(prefix); err != nil {
		return err
	}
	return hash.Update(metadataPath(prefix, name), change)
}

// CheckName checks the name of a file of the program that was read from disk: it must
// be below the prefix directory, and not in goscr's own directory.
func CheckName(name string) error {
	path := filepath.Clean(name)
	if !filepath.IsLocal(name) || path == "." || path == Metadata || strings.HasPrefix(path, Metadata+string(filepath.Separator)) {
		return fmt.Errorf("%q, which is not a file of the program below the prefix directory", name)
	}
	return nil
}

// RedundancyName matches names of redundancy files: the member, counted from 1, the
// size of the set, the lowest rank in it, and the scheme.
var RedundancyName = regexp.MustCompile(`^([0-9]{1,9})_of_([0-9]{1,9})_in_([0-9]{1,9})\.(xor|partner|rs)$`)

// IsRedundancy reports whether a redundancy file can have a name.
func IsRedundancy(name string) bool { return RedundancyName.MatchString(name) }

// RemoveEmpty removes the directories of a file below the prefix directory, from
// the inside out, as far as they are empty.
func RemoveEmpty(prefix, path string) {
	for d := filepath.Dir(path); d != prefix && unix.Rmdir(d) == nil; d = filepath.Dir(d) {
	}
}

// syncNames makes the names of files in the prefix directory durable.
func syncNames(prefix string, files []redundancy.File) error {
	synced := map[string]bool{}
	for _, f := range files {
		for d := filepath.Dir(f.Path); !synced[d]; d = filepath.Dir(d) { // some may be new
			if err := hash.SyncDir(d); err != nil && !errors.Is(err, fs.ErrPermission) { // may be searched, not read
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
