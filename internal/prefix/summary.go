package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// The summary of a dataset is written when all its files, and the list of them, are
// in the prefix directory:
//
//	VERSION = 6
//	DSET / …        description
//	COMPLETE        1, or 0
//	COMPRESSED = 1  in place of COMPLETE = 1 if files are compressed; ours
//	OWNS = 1        as in the index; ours
//	REPLACED / …    a newer dataset has taken over files, see Replaced; ours
//	RETIRED / …     in place of COMPLETE = 1 if it is retired, see Retired; ours
const (
	summaryFile    = "summary.scr"
	summaryVersion = 6

	keyDset       = "DSET"
	keyComplete   = "COMPLETE"
	keyCompressed = "COMPRESSED"
)

// describe enters a dataset, complete or not, in the hash of an index or of a
// summary. A dataset with compressed files has COMPLETE = 0, since SCR 3.1 would
// otherwise give the program the compressed files. That such a dataset is complete is
// recorded by the key COMPRESSED, which only goscr reads.
//
// The same is true of a retired dataset, whose files SCR 3.1 would not find. retired is nil if d
// is not retired.
func describe(h *hash.Hash, d dataset.Dataset, complete bool, retired *Retired) {
	key := keyComplete
	if d.Compressed() {
		key = keyCompressed
	}
	if d.Compressed() || retired != nil {
		d.SetComplete(false)
	}
	h.Set(keyDset, d.Encode())
	h.SetValue(keyComplete, "0")
	h.Unset(keyCompressed)
	h.Unset(keyRetired)
	switch {
	case complete && retired != nil:
		h.Set(keyRetired, hash.Marshal(retired))
	case complete:
		h.SetValue(key, "1")
	}
}

// isComplete reports whether a dataset was described as complete.
func isComplete(h *hash.Hash) bool {
	return h.Text(keyComplete) == "1" || h.Text(keyCompressed) == "1" || h.Has(keyRetired)
}

// Found is a dataset with a summary in the prefix directory. The index may lack it.
type Found struct {
	dataset.Dataset
	Complete bool
	Flushed  time.Time // when its summary was written
	Dir      string    // its directory if SCR 1.1 wrote it, see Entry
	Owns     bool      // see Entry
	Replaced *Replaced // nil if it is not replaced
	Retired  *Retired  // nil if it is not retired
}

// store writes the summary of a dataset.
func (f Found) store(prefix string) error {
	h := hash.New()
	h.SetInt(keyVersion, summaryVersion)
	describe(h, f.Dataset, f.Complete, f.Retired)
	if f.Owns {
		h.SetValue(keyOwns, "1")
	}
	if f.Replaced != nil {
		h.Set(keyReplaced, hash.Marshal(f.Replaced))
	}
	return hash.WriteShared(summaryPath(prefix, f.ID()), h)
}

func summaryPath(prefix string, id int) string { return filepath.Join(Dir(prefix, id), summaryFile) }

// Summary reads the summary of a dataset. It returns an error if the summary names
// another id, or no valid name.
func Summary(prefix string, id int) (Found, error) {
	f, _, err := readSummary(prefix, id)
	if err == nil && (f.ID() != id || dataset.CheckName(f.Name()) != nil) {
		return Found{}, fmt.Errorf("%s is the summary of dataset %d, %q", summaryPath(prefix, id), f.ID(), f.Name())
	}
	return f, err
}

// readSummary reads a summary without checking its id and name. version is the text of the
// key VERSION; a dataset whose summary has another version is never complete.
func readSummary(prefix string, id int) (f Found, version string, err error) {
	path := summaryPath(prefix, id)
	info, err := os.Lstat(path)
	if err != nil {
		return Found{}, "", err
	}
	h, err := hash.ReadFile(path)
	if err != nil {
		return Found{}, "", err
	}
	v, _ := h.Int(keyVersion)
	d := dataset.Decode(h.Get(keyDset))
	f = Found{Dataset: d, Complete: v == summaryVersion && isComplete(h), Flushed: info.ModTime(),
		Owns: h.Text(keyOwns) == "1", Replaced: decodeReplaced(h), Retired: decodeRetired(h, d)}
	return f, h.Text(keyVersion), nil
}

// completeSummary returns the description of a dataset, or an error if its summary does
// not say that it is complete.
func completeSummary(prefix string, id int) (dataset.Dataset, error) {
	f, version, err := readSummary(prefix, id)
	path := summaryPath(prefix, id)
	switch {
	case err != nil:
	case version != strconv.Itoa(summaryVersion):
		err = fmt.Errorf("%s has version %q, this version of goscr reads version %d", path, version, summaryVersion)
	case f.Replaced != nil:
		err = fmt.Errorf("the files of dataset %d (%s) were replaced by %s", id, f.Name(), f.Replaced.By)
	case !f.Complete:
		err = fmt.Errorf("%s says that the dataset is not complete", path)
	case f.ID() != id:
		err = fmt.Errorf("%s is the summary of dataset %d", path, f.ID())
	}
	return f.Dataset, err
}

// Summaries returns all datasets that have a summary, lowest id first, and an error for
// each summary that cannot be read, or one if the directory cannot be listed.
func Summaries(prefix string) (list []Found, bad []error) {
	ids, err := IDs(prefix)
	if err != nil {
		return nil, []error{err}
	}
	for _, id := range ids {
		f, err := Summary(prefix, id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the dataset was not completed
		case err != nil:
			bad = append(bad, err)
		default:
			list = append(list, f)
		}
	}
	return list, bad
}
