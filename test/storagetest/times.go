package storagetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// kept has, by device, what its file system makes of a time with nanoseconds.
var kept sync.Map

// SameTime reports whether a file has the time of modification that it was given, as far
// as its file system keeps times: some keep whole seconds, and some none.
func SameTime(path string, info fs.FileInfo, want time.Time) bool {
	if info.ModTime().Equal(want) {
		return true
	}
	probe := time.Unix(1_000_000_000, 123_456_789)
	device := info.Sys().(*syscall.Stat_t).Dev
	got, known := kept.Load(device)
	if !known {
		f, err := os.CreateTemp(filepath.Dir(path), "time")
		if err != nil {
			return false
		}
		defer os.Remove(f.Name())
		defer f.Close()
		if os.Chtimes(f.Name(), probe, probe) != nil {
			return false
		}
		now, err := os.Stat(f.Name())
		if err != nil {
			return false
		}
		got, _ = kept.LoadOrStore(device, now.ModTime())
	}
	switch kept := got.(time.Time); {
	case kept.Equal(probe):
		return false
	case kept.Equal(probe.Truncate(time.Second)):
		return info.ModTime().Equal(want.Truncate(time.Second))
	default:
		return info.ModTime().Equal(kept)
	}
}
