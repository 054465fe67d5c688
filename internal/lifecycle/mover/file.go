package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// The transfer file, in the control directory of a node, lists files to copy and files
// that were copied (SCR Developer's Manual, "Files"). The processes of the node and
// scr_transfer change it under its lock.
//
//	FILES   / <path in the cache> / DESTINATION = path in the prefix directory
//	                                SIZE = bytes
//	                                WRITTEN = number of bytes that are on the medium
//	                                META / …                       ours
//	DSET    / <id> / DSETDESC / …   PREFIX = dir   RANKS = n        ours, like all below it
//	                 COMPRESS = method
//	                 RANK / <r> / FILE / <path in the cache> / META / …   if another rank copies it
//	                              DONE = 1, or FAILED = why with CORRUPT = path
//	CANCEL  / <id>                  stop copying this dataset; scr_transfer then removes it
//	BW, PERCENT                     limits: bytes a second, percent of a processor; 0: none
//	COMMAND = RUN | EXIT            what scr_transfer is to do
//	STATE   = RUNNING | STOPPED     what it is doing
//	FLAG    = DONE                  all files that the transfer file lists have been copied
//	BUF, BARE, BLIND                how to copy; ours
//	STAY = 1                        scr_transfer waits for more requests when all are done; ours
const (
	fileName  = "transfer.scrinfo"
	LockName  = "transfer.lock"  // in the control directory: held by the scr_transfer of the node
	queueName = "transfer.queue" // shared by the scr_transfers that wait to replace it

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
func lockPath(control string) string { return filepath.Join(control, LockName) }

// running reports whether there is an scr_transfer on the node.
func running(control string) bool { return lock.Held(lockPath(control)) }

// awaited reports whether an scr_transfer waits to replace the one that runs.
func awaited(control string) bool { return lock.Held(filepath.Join(control, queueName)) }

// Manner holds the settings of a copy; see transfer.Copier.
type Manner struct {
	Buffer      int // bytes that are copied at a time
	Bare, Blind bool
}

func flag(on bool) string { return map[bool]string{true: "1", false: "0"}[on] }

// enter adds a request to the hash of a transfer file. method is how files are compressed;
// if it is nil, they are not.
func (r *Request) enter(h *hash.Hash, m Manner, method *compress.Method) error {
	of := h.SetKVInt(keyDataset, r.Dataset.ID())
	of.Set(keyDesc, r.Dataset.Encode())
	of.SetValue(keyPrefix, r.Prefix)
	of.SetInt(keyRanks, int64(r.Ranks))
	if method != nil {
		of.SetValue(keyCompress, method.String())
	}
	part := hash.New()
	part.At(keyFile)
	for _, f := range r.Files {
		to, err := prefix.Destination(r.Prefix, f)
		if err != nil {
			return err
		}
		of := part.At(keyFile, f.Path)
		if f.Meta.Shared() {
			of.Set(keyMeta, f.Meta.Clone().Hash())
			continue
		}
		e := hash.New()
		e.SetValue(keyDestination, to)
		e.SetInt(keySize, f.Meta.Size())
		e.SetInt(keyWritten, 0)
		e.Set(keyMeta, f.Meta.Clone().Hash())
		h.At(keyFiles).Set(f.Path, e)
	}
	of.At(keyRank).Set(strconv.Itoa(r.Rank), part)
	h.SetValue(keyBandwidth, fmt.Sprintf("%f", r.Limits.Bandwidth))
	h.SetValue(keyPercent, fmt.Sprintf("%f", 100*r.Limits.CPU))
	h.SetInt(keyBuffer, int64(m.Buffer))
	h.SetValue(keyBare, flag(m.Bare))
	h.SetValue(keyBlind, flag(m.Blind))
	h.SetValue(keyCommand, commandRun)
	h.Unset(keyFlag)
	return nil
}

// limits returns the limits in a transfer file.
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

// copier returns the copier of a dataset with the settings of a transfer file.
func copier(h *hash.Hash, id int) *transfer.Copier {
	const usual, most = 1 << 20, 16 << 20
	size, ok := h.Int(keyBuffer)
	if !ok || size < 1 || size > most {
		size = usual
	}
	c := transfer.NewCopier(int(size))
	c.Below = trust.Root(h.Get(keyDataset, strconv.Itoa(id)).Text(keyPrefix))
	c.Bare, c.Blind = h.Text(keyBare) == "1", h.Text(keyBlind) == "1"
	if m, err := compress.Parse(h.Get(keyDataset, strconv.Itoa(id)).Text(keyCompress)); err == nil {
		c.Compress = m
	}
	return c
}

// next returns the first request of a transfer file that has not ended, of the oldest
// dataset that has one, and which of its files have been copied; nil if there is none.
func next(h *hash.Hash) (r *Request, copied map[string]bool) {
	for _, id := range h.Get(keyDataset).Ints() {
		of := h.GetKVInt(keyDataset, id)
		d := dataset.Decode(of.Get(keyDesc))
		if d.ID() != id {
			continue // its result could not be recorded under this id
		}
		for _, rank := range of.Get(keyRank).Ints() {
			part := of.GetKVInt(keyRank, rank)
			if part.Has(keyDone) || part.Has(keyFailed) {
				continue
			}
			ranks, _ := of.Int(keyRanks)
			r := &Request{Dataset: d, Rank: rank, Ranks: int(ranks), Prefix: of.Text(keyPrefix), Limits: limits(h)}
			copied := map[string]bool{}
			for path, of := range part.Get(keyFile).All() {
				if of.Has(keyMeta) {
					r.Files = append(r.Files, redundancy.File{Path: path, Meta: meta.FromHash(of.Get(keyMeta)).Clone()})
					continue
				}
				f := redundancy.File{Path: path, Meta: meta.FromHash(h.Get(keyFiles, path, keyMeta)).Clone()}
				r.Files = append(r.Files, f)
				written, ok := h.Get(keyFiles, path).Int(keyWritten)
				to, err := prefix.Destination(r.Prefix, f)
				// All 0 bytes of an empty file are written before its copy has begun.
				copied[path] = ok && err == nil && written > 0 && written == f.Meta.Size() && there(trust.Root(r.Prefix), r.aside(to), written)
			}
			return r, copied
		}
	}
	return nil, nil
}

// there reports whether there is a file of the given size at a path.
func there(below trust.Root, path string, size int64) bool {
	info, err := below.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// remove removes a dataset and its files from a transfer file.
func remove(h *hash.Hash, id string) {
	for _, part := range h.Get(keyDataset, id, keyRank).All() {
		for path := range part.Get(keyFile).All() {
			h.UnsetKV(keyFiles, path)
		}
	}
	h.UnsetKV(keyDataset, id)
	h.UnsetKV(keyCancel, id)
}

// outcome returns the result of a rank's request in a transfer file.
func outcome(h *hash.Hash, id, rank int) (ended bool, err error) {
	part := partOf(h, id, rank)
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

// partOf returns a rank's request in a transfer file, nil if it was cancelled.
func partOf(h *hash.Hash, id, rank int) *hash.Hash {
	return h.GetKVInt(keyDataset, id).GetKVInt(keyRank, rank)
}

// record enters the result of a request.
func record(h *hash.Hash, r *Request, err error) {
	part := partOf(h, r.Dataset.ID(), r.Rank)
	var corrupt *redundancy.CorruptError
	switch {
	case part == nil: // cancelled
	case err == nil:
		part.SetValue(keyDone, "1")
	case errors.As(err, &corrupt):
		part.SetValue(keyCorrupt, corrupt.Path)
		part.SetValue(keyFailed, corrupt.Reason)
	default:
		part.SetValue(keyFailed, err.Error())
	}
}

// written returns how many bytes of a dataset's files in the transfer file have been copied, of
// how many.
func written(h *hash.Hash, id int) (copied, size int64) {
	for _, part := range h.Get(keyDataset, strconv.Itoa(id), keyRank).All() {
		for path := range part.Get(keyFile).All() {
			e := h.Get(keyFiles, path)
			n, _ := e.Int(keyWritten)
			of, _ := e.Int(keySize)
			copied, size = copied+n, size+of
		}
	}
	return copied, size
}

// recordWritten records that files have been copied.
func recordWritten(h *hash.Hash, paths []string) {
	for _, path := range paths {
		if e := h.Get(keyFiles, path); e != nil {
			e.SetValue(keyWritten, e.Text(keySize))
		}
	}
}

// watched is a file that is changed by replacing it.
type watched struct {
	path  string
	seen  fs.FileInfo
	doubt time.Time // last change, if another one since could have gone unnoticed; else zero
}

// tick is longer than the resolution of file times.
const tick = 50 * time.Millisecond

// changed reports whether the file has been replaced since the last call, or is
// missing. If a file is replaced twice within a tick, the inode number and the time may be
// the same again. So changed also returns true once more a tick after a change.
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
