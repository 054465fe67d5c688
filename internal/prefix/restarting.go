package prefix

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
)

// restart.scr names the checkpoint that the program is reading. If the program dies
// before it has finished, no later run is offered this checkpoint, so that they do not
// die in the same way.
//
//	READING   / <id> / NAME = <name>     the program is restarting from it
//	CONDEMNED / <id> / NAME = <name>     no run may restart from it
const (
	restartFile  = "restart.scr"
	keyReading   = "READING"
	keyCondemned = "CONDEMNED"
)

// BeginRestart records that the program begins to read a checkpoint, and no longer reads
// any other.
func BeginRestart(prefix string, d dataset.Dataset) error {
	return update(prefix, restartFile, func(h *hash.Hash) error {
		h.Unset(keyReading)
		h.At(keyReading, strconv.Itoa(d.ID())).SetValue(keyName, d.Name())
		return nil
	})
}

// EndRestart records that the program no longer reads a checkpoint.
func EndRestart(prefix string) error {
	if !restarted(prefix) {
		return nil
	}
	return update(prefix, restartFile, func(h *hash.Hash) error { h.Unset(keyReading); return nil })
}

// restarted reports whether there is a restart.scr: any program has begun a restart from
// this prefix directory.
func restarted(prefix string) bool {
	_, err := os.Lstat(metadataPath(prefix, restartFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Condemn marks the checkpoint that the program was reading when it died, in restart.scr
// and in the index, so that no run restarts from it. It returns the name of the
// checkpoint, "" if the program was not reading any.
func Condemn(prefix string, now time.Time) (name string, err error) {
	if !restarted(prefix) {
		return "", nil
	}
	id := 0
	err = update(prefix, restartFile, func(h *hash.Hash) error {
		for text, e := range h.Get(keyReading).All() {
			id, _ = strconv.Atoi(text)
			name = e.Text(keyName)
			h.At(keyCondemned, text).SetValue(keyName, name)
		}
		h.Unset(keyReading)
		return nil
	})
	if err != nil || name == "" {
		return "", err
	}
	x, err := ReadIndex(prefix)
	if err != nil || x.ByID(id).Name != name {
		return name, err
	}
	return name, UpdateIndex(prefix, func(x *Index) error { x.MarkFailed(id, now); return nil })
}

// Condemned returns the names of the checkpoints that no run may restart from, by id.
func Condemned(prefix string) (map[int]string, error) {
	h, err := hash.ReadOrNew(metadataPath(prefix, restartFile))
	if err != nil {
		return nil, err
	}
	list := map[int]string{}
	for _, id := range h.Get(keyCondemned).Ints() {
		list[id] = h.Get(keyCondemned, strconv.Itoa(id)).Text(keyName)
	}
	return list, nil
}

// Forgive removes all checkpoints from the list of those that no run may restart from,
// once they are deleted from the cache.
func Forgive(prefix string) error {
	return update(prefix, restartFile, func(h *hash.Hash) error { h.Unset(keyCondemned); return nil })
}
