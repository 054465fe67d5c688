package config

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// The places of the system's configuration file; the first that is there is read. That of
// the installation is found by where the library or the command is, so that an installation
// can be moved. A build sets the second to that of the place for which it is built:
//
//	go build -ldflags "-X github.com/goscr/goscr/internal/config.builtFor=/opt/scr/etc/scr.conf"
var (
	installed string
	builtFor  string
	elsewhere = "/etc/scr.conf"
)

// systemFile returns the path of the system's configuration file.
var systemFile = sync.OnceValue(func() string { return first(installed, builtFor, elsewhere) })

// first returns the first path at which there is something, or the last.
func first(paths ...string) string {
	i := slices.IndexFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return path != "" && !missing(err)
	})
	if i < 0 {
		i = len(paths) - 1
	}
	return paths[i]
}

// Installed returns where the library or the command is, and so where the system's file may
// be: in etc beside its directory, if that is one of an installation. It is called before
// any parameter is looked up.
func Installed(path string) {
	if path, err := filepath.EvalSymlinks(path); err == nil {
		installed = beside(path)
	}
}

// beside returns the path of the system's file of an installation that has this file, "" if
// it is in no directory of an installation.
func beside(path string) string {
	dir := filepath.Dir(path)
	if up, goscr := filepath.Split(filepath.Dir(dir)); goscr == "goscr" { // lib/goscr/openmpi has the library for one MPI
		up = filepath.Clean(up)
		if slices.Contains([]string{filepath.Base(up), filepath.Base(filepath.Dir(up))}, "lib") || filepath.Base(up) == "lib64" {
			dir = up
		}
	}
	if filepath.Base(filepath.Dir(dir)) == "lib" { // as in lib/x86_64-linux-gnu
		dir = filepath.Dir(dir)
	}
	if !slices.Contains([]string{"bin", "lib", "lib64", "libexec"}, filepath.Base(dir)) {
		return ""
	}
	return filepath.Join(filepath.Dir(dir), "etc", "scr.conf")
}
