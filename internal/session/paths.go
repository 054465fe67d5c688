package session

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
	path, shown := filepath.Clean(name), name
	if !filepath.IsAbs(path) {
		// os.Getwd would use PWD, which the program does not update when it changes its
		// working directory.
		dir, err := unix.Getwd()
		if err != nil {
			return "", fmt.Errorf("working directory: %w", err)
		}
		path = filepath.Join(dir, path)
		shown += " in the working directory " + dir
	}
	rel, below := strings.CutPrefix(path, p.dir+"/")
	if !below && path != p.dir {
		// Symbolic links may lead to the prefix directory.
		path = resolve(path)
		rel, below = strings.CutPrefix(path, p.real+"/")
	}
	switch {
	case path == p.dir || path == p.real:
		return "", fmt.Errorf("%s is the prefix directory itself", name)
	case !below:
		return "", fmt.Errorf("%s is not below the prefix directory %s: name a file below it, or set SCR_PREFIX to a directory above the file", shown, p.dir)
	case rel == prefix.Metadata || strings.HasPrefix(rel, prefix.Metadata+"/"):
		return "", fmt.Errorf("%s is in %s, which is reserved for goscr's own files", name, prefix.Metadata)
	}
	return rel, nil
}

// direct returns a path that below has returned without the symbolic links below the prefix
// directory, so that ranks which name a file by different paths mean the same. It looks at
// directories in the prefix directory. A link that leads out of that directory stays.
func (p paths) direct(rel string) (string, error) {
	dir := resolve(filepath.Join(p.real, filepath.Dir(rel)))
	under, below := strings.CutPrefix(dir+"/", p.real+"/")
	if !below {
		return rel, nil
	}
	path := filepath.Join(under, filepath.Base(rel))
	if strings.HasPrefix(path, prefix.Metadata+"/") {
		return "", fmt.Errorf("%s is in %s, which is reserved for goscr's own files", rel, prefix.Metadata)
	}
	return path, nil
}

// resolve follows the symbolic links in the directories of a path, as far as these exist.
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
