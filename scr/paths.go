package scr

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/prefix"
)

// paths finds the path of a file below the prefix directory.
type paths struct {
	dir  string // the prefix directory
	real string // ... without symbolic links
}

// below returns the path of a file relative to the prefix directory.
func (p paths) below(name string) (string, error) {
	path := filepath.Clean(name)
	if !filepath.IsAbs(path) {
		// Not os.Getwd, which uses the PWD of the start of the program.
		dir, err := unix.Getwd()
		if err != nil {
			return "", fmt.Errorf("working directory: %w", err)
		}
		path = filepath.Join(dir, path)
	}
	rel, below := strings.CutPrefix(path, p.dir+"/")
	if !below && path != p.dir {
		// The same place by another way, through symbolic links?
		path = resolve(path)
		rel, below = strings.CutPrefix(path, p.real+"/")
	}
	switch {
	case path == p.dir || path == p.real:
		return "", fmt.Errorf("%s is the prefix directory itself", name)
	case !below:
		return "", fmt.Errorf("%s is not below the prefix directory %s: write it there, or set SCR_PREFIX", name, p.dir)
	case rel == prefix.Metadata || strings.HasPrefix(rel, prefix.Metadata+"/"):
		return "", fmt.Errorf("%s lies in %s, which is goscr's own", name, prefix.Metadata)
	}
	return rel, nil
}

// resolve follows the symbolic links in those directories of a path that are
// there.
func resolve(path string) string {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == "/" {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
