package scavenge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// scr_copy of SCR 3.1 copies the files of each rank to their places in the prefix
// directory, and to the metadata directory of the dataset it copies the rank's filemap,
// filemap_<rank>:
//
//	FILE / <path in the cache> / META / COMPLETE = 1
//	                                    RANKS = n       size of the job
//	                                    SIZE  = bytes
//	                                    PATH  = dir     absolute, in the prefix directory
//	                                    NAME  = last element
//	                                    CRC             if it was computed
//
// The description of the dataset is in flush.scr only. Beside the filemaps are redundancy
// files in SCR's format, which goscr does not read.
const filemapPrefix = "filemap_"

// readSCR reads the filemaps of a dataset that scr_copy of SCR 3.1 has copied, and returns a
// list for each rank. bad has an error for each filemap that cannot be used.
func readSCR(prefixDir string, id int) (list []*prefix.Part, bad []error, err error) {
	ranks, err := prefix.RanksOf(prefixDir, id, filemapPrefix, "")
	if err != nil || len(ranks) == 0 {
		return nil, nil, err
	}
	size := 0 // of the job
	known, err := prefix.ReadFlushFile(filepath.Join(prefixDir, prefix.Metadata, "flush.scr"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, l := range known {
		if l.ID != id || l.Dataset.ID() != id {
			continue
		}
		for _, rank := range ranks {
			p := &prefix.Part{Rank: rank, Dataset: l.Dataset}
			if err := readFilemap(prefixDir, p); err != nil {
				bad = append(bad, err)
				continue
			}
			size = max(size, p.Ranks)
			list = append(list, p)
		}
		for _, p := range list { // a rank without files does not say how many ranks there are
			p.Ranks = cmp.Or(p.Ranks, size)
		}
		return list, bad, nil
	}
	return nil, nil, fmt.Errorf("scr_copy of SCR 3.1 has scavenged dataset %d, and .scr/flush.scr does not describe it: it cannot be built", id)
}

// readFilemap reads the filemap of p.Rank, and sets the files of p and the size of its job.
func readFilemap(prefixDir string, p *prefix.Part) error {
	path := filepath.Join(prefix.Dir(prefixDir, p.Dataset.ID()), filemapPrefix+strconv.Itoa(p.Rank))
	h, err := hash.ReadFile(path)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(prefixDir)
	if err != nil {
		return err
	}
	for _, f := range h.Get("FILE").All() {
		theirs := f.Get("META")
		m := meta.FromHash(theirs)
		ranks, _ := theirs.Int("RANKS")
		where := filepath.Join(theirs.Text("PATH"), theirs.Text("NAME"))
		name, err := filepath.Rel(root, where)
		if err == nil {
			err = prefix.CheckName(name)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: lists %s, which is not in %s: %w", path, where, root, err)
		case !m.Complete() || m.Size() < 0:
			return fmt.Errorf("%s: %s was not complete in the cache", path, name)
		case ranks <= int64(p.Rank) || p.Ranks != 0 && int(ranks) != p.Ranks:
			return fmt.Errorf("%s: gives %d as the number of ranks of the job", path, ranks)
		}
		p.Ranks = int(ranks)
		own := meta.NewFull(name, p.Ranks, theirs.Text("ORIG"), theirs.Text("PATH"))
		own.SetSize(m.Size())
		own.SetComplete(true)
		if crc, ok := m.CRC(); ok {
			own.SetCRC(crc)
		}
		p.Files = append(p.Files, redundancy.File{Path: filepath.Join(prefixDir, name), Meta: own, Below: trust.Root(prefixDir)})
	}
	return nil
}
