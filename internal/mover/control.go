package mover

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/lock"
)

// poll returns when done, which depends on another process, is true.
func poll(done func() bool) {
	const least, most = 2 * time.Millisecond, 200 * time.Millisecond
	for nap := least; !done(); nap = min(nap*3/2, most) {
		time.Sleep(nap)
	}
}

// cancel cancels the copies of those datasets of the transfer file that which selects,
// and returns when they have ended.
func cancel(control string, which func(ids []string) []string) error {
	var ids []string
	err := hash.Update(filePath(control), func(h *hash.Hash) error {
		for _, id := range which(h.Get(keyDataset).Keys()) {
			if h.Has(keyDataset, id) {
				ids = append(ids, id)
				h.At(keyCancel, id)
			}
		}
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	var failed error
	poll(func() (done bool) {
		done, failed = cancelled(control, ids)
		return done || failed != nil
	})
	return failed
}

// cancelled reports whether copies of cancelled datasets have ended. It removes them
// from the transfer file if no scr_transfer runs that would.
func cancelled(control string, ids []string) (bool, error) {
	free, err := lock.Try(lockPath(control), lock.Exclusive)
	if err != nil {
		return false, err
	}
	if free != nil {
		defer free.Release()
		return true, hash.Update(filePath(control), func(h *hash.Hash) error {
			for _, id := range ids {
				remove(h, id)
			}
			return nil
		})
	}
	h, err := hash.ReadWithLock(filePath(control))
	return !slices.ContainsFunc(ids, func(id string) bool { return h.Has(keyCancel, id) }), err
}

// Reset cancels the copies on a node for an earlier run, and waits until they end.
func Reset(control string) error {
	if !known(control) {
		return nil
	}
	// Without an scr_transfer nothing need be written, for which there may be no room.
	if free, err := lock.Try(lockPath(control), lock.Exclusive); free != nil {
		defer free.Release()
		return os.RemoveAll(filePath(control))
	} else if err != nil {
		return err
	}
	err := cancel(control, func(all []string) []string { return all })
	if errors.Is(err, hash.ErrCorrupt) {
		// The scr_transfer cannot read it either, and ends.
		poll(func() bool { return !running(control) })
		return os.Remove(filePath(control))
	}
	if err == nil && !running(control) {
		err = os.Remove(filePath(control))
	}
	return err
}

// known reports whether a node has a transfer file.
func known(control string) bool {
	_, err := os.Lstat(filePath(control))
	return !errors.Is(err, fs.ErrNotExist)
}

// Close ends the work on a node where all has been copied: it returns when scr_transfer
// has ended, unless that waits for the next run.
func Close(control string) error {
	if !known(control) {
		return nil
	}
	stays := false
	poll(func() bool {
		if !running(control) {
			return true
		}
		h, err := hash.ReadWithLock(filePath(control))
		stays = err != nil || h.Has(keyStay)
		return stays
	})
	if stays {
		return nil
	}
	return os.Remove(filePath(control))
}

// Forget removes a dataset that has been copied from the transfer file of a node.
func Forget(control string, id int) error {
	return hash.Update(filePath(control), func(h *hash.Hash) error { remove(h, strconv.Itoa(id)); return nil })
}

// Exit ends the scr_transfer of a node, and one that waits to replace it, and returns
// when they have ended. The next continues interrupted copies.
func Exit(control string) error {
	var err error
	poll(func() bool {
		// In this order: the next one takes the lock before it leaves the queue.
		if !awaited(control) && !running(control) {
			return true
		}
		err = hash.Update(filePath(control), func(h *hash.Hash) error {
			if awaited(control) || running(control) { // else it would be for the next
				h.SetValue(keyCommand, commandExit)
			}
			return nil
		})
		return err != nil
	})
	return err
}
