package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/compress"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// The transfer file, in the control directory of a node, says what is to be copied
// and what has been (spec 000 §9.7). The processes of the node and scr_transfer
// change it under its lock.
//
//	FILES   / <path in the cache> / DESTINATION = path in the prefix directory
//	                                SIZE = bytes
//	                                WRITTEN = bytes that are on the medium
//	                                META / …                       ours
//	DSET    / <id> / DSETDESC / …   PREFIX = dir   RANKS = n        ours, like all below it
//	                 COMPRESS = method
//	                 RANK / <r> / FILE / <path in the cache>
//	                              DONE = 1, or FAILED = why with CORRUPT = path
//	CANCEL  / <id>                  what is not to be copied any more; scr_transfer takes it out
//	BW, PERCENT                     limits: bytes a second, percent of a processor; 0: none
//	COMMAND = RUN | EXIT            what scr_transfer is to do
//	STATE   = RUNNING | STOPPED     what it does
//	FLAG    = DONE                  all that is in the file has been copied
//	BUF, BARE, BLIND                how to copy; ours
//	STAY = 1                        scr_transfer waits for more when all is done; ours
const (
	fileName = "transfer.scrinfo"
	lockName = "transfer.lock" // see lock and queue

	keyFiles       = "FILES"
	keyDestination = "DESTINATION"
	keySize        = "SIZE"
	keyWritten     = "WRITTEN"
	keyMeta        = "META"
	keyDataset     = "DSET"
	keyDesc        = "DSETDESC"
	keyPrefix      = "PREFIX"
	keyRanks       = "RANKS"
	keyRank        = "RANK"
	keyFile        = "FILE"
	keyDone        = "DONE"
	keyFailed      = "FAILED"
	keyCorrupt     = "CORRUPT"
	keyCancel      = "CANCEL"
	keyBandwidth   = "BW"
	keyPercent     = "PERCENT"
	keyCommand     = "COMMAND"
	keyState       = "STATE"
	keyFlag        = "FLAG"
	keyBuffer      = "BUF"
	keyBare        = "BARE"
	keyBlind       = "BLIND"
	keyStay        = "STAY"
	keyCompress    = "COMPRESS"

	commandRun   = "RUN"
	commandExit  = "EXIT"
	stateRunning = "RUNNING"
	stateStopped = "STOPPED"
)

func filePath(control string) string { return filepath.Join(control, fileName) }

// Manner is how files are copied.
type Manner struct {
	Buffer      int // bytes at a time
	Bare, Blind bool
}

func flag(on bool) string { return map[bool]string{true: "1", false: "0"}[on] }

// enter adds a load to the hash of a transfer file, and has it copied.
func (l *Load) enter(h *hash.Hash, m Manner) {
	id, rank := strconv.Itoa(l.Dataset.ID()), strconv.Itoa(l.Rank)
	of := h.At(keyDataset, id)
	of.Set(keyDesc, l.Dataset.Clone())
	of.SetValue(keyPrefix, l.Prefix)
	of.SetInt(keyRanks, int64(l.Ranks))
	part := hash.New()
	part.At(keyFile)
	for _, f := range l.Files {
		part.At(keyFile, f.Path)
		e := hash.New()
		e.SetValue(keyDestination, l.destination(f))
		e.SetInt(keySize, f.Meta.Size())
		e.SetInt(keyWritten, 0)
		e.Set(keyMeta, f.Meta.Clone().Hash())
		h.At(keyFiles).Set(f.Path, e)
	}
	of.At(keyRank).Set(rank, part)
	h.SetValue(keyBandwidth, fmt.Sprintf("%f", l.Limits.Bandwidth))
	h.SetValue(keyPercent, fmt.Sprintf("%f", 100*l.Limits.CPU))
	h.SetInt(keyBuffer, int64(m.Buffer))
	h.SetValue(keyBare, flag(m.Bare))
	h.SetValue(keyBlind, flag(m.Blind))
	h.SetValue(keyCommand, commandRun)
	h.Unset(keyFlag)
}

// limits are those that a transfer file says.
func limits(h *hash.Hash) transfer.Limits {
	number := func(key string) float64 {
		x, err := strconv.ParseFloat(h.Text(key), 64)
		if err != nil || !(x > 0) {
			return 0
		}
		return x
	}
	return transfer.Limits{Bandwidth: number(keyBandwidth), CPU: number(keyPercent) / 100}
}

// copier is what copies a dataset as a transfer file says.
func copier(h *hash.Hash, id int) *transfer.Copier {
	const usual, most = 1 << 20, 16 << 20
	size, ok := h.Int(keyBuffer)
	if !ok || size < 1 || size > most {
		size = usual
	}
	c := transfer.NewCopier(int(size))
	c.Bare, c.Blind = h.Text(keyBare) == "1", h.Text(keyBlind) == "1"
	if m, err := compress.Parse(h.Get(keyDataset, strconv.Itoa(id)).Text(keyCompress)); err == nil {
		c.Compress = m
	}
	return c
}

// next returns the first load of a transfer file that has not come to an end, the
// oldest dataset's first, and which of its files have arrived; nil if there is none.
func next(h *hash.Hash) (l *Load, arrived map[string]bool) {
	for _, id := range h.Get(keyDataset).Ints() {
		of := h.Get(keyDataset, strconv.Itoa(id))
		d := dataset.Dataset{Hash: of.Get(keyDesc)}
		if d.ID() != id {
			continue // how it ends could not be recorded
		}
		for _, rank := range of.Get(keyRank).Ints() {
			part := of.Get(keyRank, strconv.Itoa(rank))
			if part.Has(keyDone) || part.Has(keyFailed) {
				continue
			}
			ranks, _ := of.Int(keyRanks)
			l := &Load{Dataset: d, Rank: rank, Ranks: int(ranks), Prefix: of.Text(keyPrefix), Limits: limits(h)}
			arrived := map[string]bool{}
			for path := range part.Get(keyFile).All() {
				e := h.Get(keyFiles, path)
				f := redundancy.File{Path: path, Meta: meta.FromHash(e.Get(keyMeta)).Clone()}
				l.Files = append(l.Files, f)
				written, ok := e.Int(keyWritten)
				arrived[path] = ok && written == f.Meta.Size() && there(l.destination(f), written)
			}
			return l, arrived
		}
	}
	return nil, nil
}

func there(path string, size int64) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// remove takes a dataset out of a transfer file.
func remove(h *hash.Hash, id string) {
	for _, part := range h.Get(keyDataset, id, keyRank).All() {
		for path := range part.Get(keyFile).All() {
			h.UnsetKV(keyFiles, path)
		}
	}
	h.UnsetKV(keyDataset, id)
	h.UnsetKV(keyCancel, id)
}

// outcome is how a load has ended, according to a transfer file.
func outcome(h *hash.Hash, id, rank int) (ended bool, err error) {
	part := h.Get(keyDataset, strconv.Itoa(id), keyRank, strconv.Itoa(rank))
	switch {
	case part == nil:
		return true, transfer.ErrStopped
	case part.Has(keyCorrupt):
		return true, &redundancy.CorruptError{Path: part.Text(keyCorrupt), Reason: part.Text(keyFailed)}
	case part.Has(keyFailed):
		return true, errors.New(part.Text(keyFailed))
	}
	return part.Has(keyDone), nil
}

// record enters how a load has ended.
func record(h *hash.Hash, l *Load, err error) {
	part := h.Get(keyDataset, strconv.Itoa(l.Dataset.ID()), keyRank, strconv.Itoa(l.Rank))
	if part == nil { // cancelled
		return
	}
	var corrupt *redundancy.CorruptError
	switch {
	case err == nil:
		part.SetValue(keyDone, "1")
	case errors.As(err, &corrupt):
		part.SetValue(keyCorrupt, corrupt.Path)
		part.SetValue(keyFailed, corrupt.Reason)
	default:
		part.SetValue(keyFailed, err.Error())
	}
}

// lock takes the lock of the node's scr_transfer, which is on the first byte of the lock
// file, nil if somebody has it. It belongs to the open file, so that it can be asked for
// without being taken.
func lock(control string) (*os.File, error) {
	f, err := openLock(control)
	if err != nil {
		return nil, err
	}
	want := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &want)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

func openLock(control string) (*os.File, error) {
	return os.OpenFile(filepath.Join(control, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// running reports whether there is an scr_transfer on the node.
func running(control string) bool { return locked(control, 0) }

// awaited reports whether somebody waits to take the place of the scr_transfer.
func awaited(control string) bool { return locked(control, 1) }

// locked reports whether somebody has locked a byte of the lock file.
func locked(control string, at int64) bool {
	f, err := openLock(control)
	if err != nil {
		return false
	}
	defer f.Close()
	asked := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &asked) == nil && asked.Type != unix.F_UNLCK
}

// queue has it known, until the file is closed, that the caller waits to take the place
// of the scr_transfer on the node. All who wait share a lock on the second byte.
func queue(control string) (*os.File, error) {
	f, err := openLock(control)
	if err != nil {
		return nil, err
	}
	want := unix.Flock_t{Type: unix.F_RDLCK, Start: 1, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &want); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// watched is a file that is replaced when it changes.
type watched struct {
	path  string
	seen  fs.FileInfo
	doubt time.Time // when it was seen to have changed; zero once that is all that can have
}

// tick is longer than the times of files take to differ.
const tick = 50 * time.Millisecond

// changed reports whether it has been replaced since it was asked last, or is not
// there. Two changes within a tick may give back the same inode with the same time:
// after a change it says once more that there may have been one.
func (w *watched) changed() bool {
	info, err := os.Lstat(w.path)
	if err != nil {
		w.seen = nil
		return true
	}
	same := w.seen != nil && os.SameFile(info, w.seen) && info.ModTime().Equal(w.seen.ModTime())
	w.seen = info
	switch {
	case !same:
		w.doubt = time.Now()
	case !w.doubt.IsZero() && time.Since(w.doubt) >= tick:
		w.doubt = time.Time{}
		return true
	}
	return !same
}
