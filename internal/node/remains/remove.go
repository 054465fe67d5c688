package remains

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/sys/lock"
)

// ErrAlive is the error of a job whose processes still run.
var ErrAlive = errors.New("the job is running")

// RemoveShared removes the job's directories on storage that nodes share. The job must have
// ended on all of them.
func (j *Job) RemoveShared() error {
	var err error
	for _, dir := range j.Shared {
		err = errors.Join(err, cache.RemoveTree(dir))
	}
	return err
}

// Remove removes the directories of a job, but not those on storage that nodes share. It
// takes the locks of the job, so that none of its processes runs meanwhile; the lock file of
// the job is the last that goes, so that a run that begins then waits. Unless force is set, it
// is an error if the job has anything that is needed, perhaps of a run that was short.
func (j *Job) Remove(force bool) error {
	for _, control := range j.controls {
		for _, name := range locks {
			l, err := lock.Try(filepath.Join(control, name), lock.ByProcess)
			if name != cache.LockFile && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
				continue // there is no such lock file, and storage that is full has no room for one
			}
			if err != nil {
				return err
			}
			if l == nil {
				return fmt.Errorf("%w: %s", ErrAlive, lock.Holder(filepath.Join(control, name)))
			}
			defer l.Release()
		}
	}
	if j.read(indexes{}); !force && j.Needed() != "" {
		return errors.New(j.Needed())
	}
	for _, dir := range j.Dirs {
		if slices.Contains(j.controls, dir) {
			continue
		}
		if err := cache.RemoveTree(dir); err != nil {
			return err
		}
	}
	for _, control := range j.controls {
		if err := removeControl(control); err != nil {
			return err
		}
	}
	return nil
}

// removeControl removes a control directory, whose locks the caller holds.
func removeControl(control string) error {
	entries, err := os.ReadDir(control)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(locks, e.Name()) {
			err = errors.Join(err, cache.RemoveTree(filepath.Join(control, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(locks) {
		if err := os.Remove(filepath.Join(control, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(control); !errors.Is(err, unix.ENOTEMPTY) { // else another run has begun
		return err
	}
	return nil
}
