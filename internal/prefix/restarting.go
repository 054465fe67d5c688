package prefix

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
)

// restart.scr is for a program that dies of what it reads: without it, every run
// would be offered the same checkpoint and die of it again.
//
//	READING   / <id> / NAME = <name>     the program is restarting from it
//	CONDEMNED / <id> / NAME = <name>     no run is to restart from it
const (
	restartFile  = "restart.scr"
	keyReading   = "READING"
	keyCondemned = "CONDEMNED"
)

// BeginRestart records that the program begins to read a checkpoint.
func BeginRestart(prefix string, d dataset.Dataset) error {
	return updateRestartFile(prefix, func(h *hash.Hash) {
		h.Unset(keyReading)
		h.At(keyReading, strconv.Itoa(d.ID())).SetValue(keyName, d.Name())
	})
}

// EndRestart records that the program has read what it wanted, or has not begun
// to.
func EndRestart(prefix string) error {
	if _, err := os.Lstat(metadataPath(prefix, restartFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return updateRestartFile(prefix, func(h *hash.Hash) { h.Unset(keyReading) })
}

// Condemn marks the checkpoint that the program was reading when it died, so
// that no run restarts from it. It returns the name, "" if there is none.
func Condemn(prefix string, now time.Time) (name string, err error) {
	id := 0
	if _, err := os.Lstat(metadataPath(prefix, restartFile)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	err = updateRestartFile(prefix, func(h *hash.Hash) {
		for text, e := range h.Get(keyReading).All() {
			id, _ = strconv.Atoi(text)
			name = e.Text(keyName)
			h.At(keyCondemned, text).SetValue(keyName, name)
		}
		h.Unset(keyReading)
	})
	if err != nil || name == "" {
		return "", err
	}
	x, err := ReadIndex(prefix)
	if err != nil || x.entry(id).Name != name {
		return name, err
	}
	return name, UpdateIndex(prefix, func(x *Index) error { x.MarkFailed(id, now); return nil })
}

// Condemned returns the checkpoints that no run is to restart from, by id.
func Condemned(prefix string) (map[int]string, error) {
	h, err := hash.ReadWithLock(metadataPath(prefix, restartFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := map[int]string{}
	for _, id := range h.Get(keyCondemned).Ints() {
		list[id] = h.Get(keyCondemned, strconv.Itoa(id)).Text(keyName)
	}
	return list, nil
}

// Forgive takes checkpoints off the list, once they are gone from the cache.
func Forgive(prefix string) error {
	return updateRestartFile(prefix, func(h *hash.Hash) { h.Unset(keyCondemned) })
}

func updateRestartFile(prefix string, change func(*hash.Hash)) error {
	if err := os.MkdirAll(filepath.Join(prefix, Metadata), 0o777); err != nil {
		return err
	}
	return hash.Update(metadataPath(prefix, restartFile), func(h *hash.Hash) error {
		change(h)
		return nil
	})
}

// Progress is what flush.scr and the index say of the checkpoints of a job.
type Progress struct {
	Newest   int       // id of the newest that is complete
	Name     string    // its name
	Latest   time.Time // when the one that was begun last was begun
	Flushing bool      // a dataset is on its way to the prefix directory
}

// ReadProgress looks how far a job is. It may be called at any time.
func ReadProgress(prefix string) (Progress, error) {
	var p Progress
	x, err := ReadIndex(prefix)
	if err != nil {
		return p, err
	}
	if e, ok := x.Next(0); ok {
		p.Newest, p.Name = e.ID, e.Name
	}
	for _, e := range x.Entries() {
		p.begun(e.Dataset)
	}
	h, err := hash.ReadWithLock(metadataPath(prefix, flushFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	for _, id := range h.Get(keyDataset).Ints() {
		e := h.Get(keyDataset, strconv.Itoa(id))
		if e.Has(keyLocation, string(Flushing)) {
			p.Flushing = true
		}
		if !e.Has(keyLocation, string(InCache)) && !e.Has(keyLocation, string(InPrefix)) {
			continue
		}
		p.begun(dataset.Dataset{Hash: e.Get(keyDesc)})
		if id > p.Newest && e.Has(keyCkpt) {
			p.Newest, p.Name = id, e.Text(keyName)
		}
	}
	return p, err
}

// begun takes a dataset into account.
func (p *Progress) begun(d dataset.Dataset) {
	if t := d.Created(); d.Flags().Has(dataset.Checkpoint) && t.After(p.Latest) {
		p.Latest = t
	}
}

// Unflushed is a dataset that is in the cache only.
type Unflushed struct {
	ID         int
	Name       string
	Checkpoint bool
	Output     bool
}

// OnlyInCache returns the datasets that the prefix directory does not have,
// oldest first.
func OnlyInCache(prefix string) ([]Unflushed, error) {
	h, err := hash.ReadWithLock(metadataPath(prefix, flushFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Unflushed
	for _, id := range h.Get(keyDataset).Ints() {
		e := h.Get(keyDataset, strconv.Itoa(id))
		if e.Has(keyLocation, string(InCache)) && !e.Has(keyLocation, string(InPrefix)) {
			list = append(list, Unflushed{id, e.Text(keyName), e.Has(keyCkpt), e.Has(keyOutput)})
		}
	}
	return list, nil
}

// NewestFlushed is the id of the newest usable checkpoint in the prefix
// directory, 0 if there is none.
func NewestFlushed(prefix string) (int, error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return 0, err
	}
	e, _ := x.Next(x.Highest() + 1)
	return e.ID, nil
}
