package filemap

import (
	"fmt"
	"os"
	"path/filepath"
)

// Pattern matches the names of filemaps in a control directory.
const Pattern = "filemap_*.scrinfo"

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
