package mover

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/lock"
)

// await returns when done, for which the scr_transfer of a node has to do something, is
// true, or has an error. A line says that it waits, and when scr_transfer has shown no
// sign of life for long, as one that is stopped, it is an error (lock.ErrTimeout).
func await(control, to string, done func() (bool, error)) error {
	return lock.Until(lockPath(control), to, done)
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
	// It is not safe to go on without: a copy that goes on later could put a file of an
	// old dataset where a new one of its name is.
	return await(control, "cancel what it copies (it is "+Command+")", func() (bool, error) { return cancelled(control, ids) })
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
	h, err := hash.ReadFile(filePath(control))
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
		err := await(control, "end (it is "+Command+", whose transfer file is damaged)", func() (bool, error) { return !running(control), nil })
		if err != nil {
			return err
		}
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
// has ended, unless that waits for the next run, or does not end: since nothing is left to
// be copied it does no harm later, and the next run waits for it.
func Close(control string) error {
	if !known(control) {
		return nil
	}
	stays := false
	err := await(control, "end (it is "+Command+", which has nothing left to copy)", func() (bool, error) {
		if !running(control) {
			return true, nil
		}
		h, err := hash.ReadFile(filePath(control))
		stays = err != nil || h.Has(keyStay)
		return stays, nil
	})
	if stays || errors.Is(err, lock.ErrTimeout) {
		return nil
	}
	if err != nil {
		return err
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
	return await(control, "end (it is "+Command+")", func() (bool, error) {
		// In this order: the next one takes the lock before it leaves the queue.
		if !awaited(control) && !running(control) {
			return true, nil
		}
		return false, hash.Update(filePath(control), func(h *hash.Hash) error {
			if awaited(control) || running(control) { // else it would be for the next
				h.SetValue(keyCommand, commandExit)
			}
			return nil
		})
	})
}
