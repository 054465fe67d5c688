package filemap

import (
	"fmt"
	"os"
	"path/filepath"
)

// Pattern matches the names of filemaps in a control directory.
const Pattern = "filemap_*.scrinfo"

// CopiesDir is the directory, in that of a dataset on storage that all ranks share, with
// copies of the nodes' entries of the dataset. Each is a filemap, named like that of the
// first rank of its node.
const CopiesDir = ".scr"

// ReadCopies reads these copies for a dataset, whose directory is dir, and changes nothing.
// Files have the paths that they have below dir. bad is as in ReadDir.
func ReadCopies(dir string, id int) (all *Map, bad []error, err error) {
	from, bad, err := ReadDir(filepath.Join(dir, CopiesDir))
	if err != nil {
		return nil, bad, err
	}
	all = &Map{}
	for _, rank := range from.Ranks(id) {
		for _, path := range from.Files(id, rank) {
			md := from.Meta(id, rank, path)
			if file := md.File(); file != "" {
				all.AddFile(id, rank, filepath.Join(dir, file), md)
			}
		}
		files, jobSize := from.Expected(id, rank)
		all.SetExpected(id, rank, files, jobSize)
		all.SetDataset(id, rank, from.Dataset(id, rank))
		all.SetReddesc(id, rank, from.Reddesc(id, rank))
	}
	return all, bad, nil
}

// ReadDir reads all filemaps in a control directory into one map, and changes
// nothing. bad has the errors of filemaps that cannot be read.
func ReadDir(dir string) (all *Map, bad []error, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	all = &Map{}
	for _, e := range entries {
		if ok, _ := filepath.Match(Pattern, e.Name()); !ok {
			continue
		}
		s, err := OpenStore(filepath.Join(dir, e.Name()))
		if err != nil {
			bad = append(bad, fmt.Errorf("filemap: %w", err))
			continue
		}
		all.Merge(&s.Map)
		if err := s.Close(); err != nil {
			bad = append(bad, err)
		}
	}
	return all, bad, nil
}
