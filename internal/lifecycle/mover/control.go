package mover

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/lock"
)

// await waits for the scr_transfer of a node, until done returns true or an error. After a
// while a message says that it waits. If scr_transfer shows no sign of life for long, for
// example because it is stopped, await returns an error (lock.ErrTimeout).
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
	// It is not safe to continue before the copy has ended: it could later put a file of an
	// old dataset in the place of a new file with the same name.
	return await(control, "cancel what it copies (it is "+Command+")", func() (bool, error) { return cancelled(control, ids) })
}

// cancelled reports whether copies of cancelled datasets have ended. If no scr_transfer
// runs, which would remove the datasets from the transfer file, cancelled removes them.
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
	// If no scr_transfer runs, delete the file instead of changing it: there may be no room
	// to write.
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

// Close ends the work on a node when all files have been copied. It waits for scr_transfer to
// end and deletes the transfer file, unless scr_transfer stays for the next run. It is no
// error if scr_transfer does not end in time: it has nothing left to copy, so it does no
// harm, and the next run waits for it.
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
			if awaited(control) || running(control) { // else the next scr_transfer would obey it
				h.SetValue(keyCommand, commandExit)
			}
			return nil
		})
	})
}
