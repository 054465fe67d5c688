package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
)

// records.scr says which facts belong to a checkpoint:
//
//	DATASET / <id> / NAME    = <name>
//	                 CREATED = <µs>      as in its description
//	                 ENDED   = <µs>      when it was complete
//	                 FACTS   = <digest>  of the file in records/
const (
	recordsFile = "records.scr"
	recordsDir  = "records"

	keyDataset = "DATASET"
	keyName    = "NAME"
	keyCreated = "CREATED"
	keyEnded   = "ENDED"
)

// ErrNone is the error of a checkpoint with which nothing was recorded: by SCR 3.1, an
// older goscr, or with SCR_RECORD=0.
var ErrNone = errors.New("nothing is recorded of how the job was started")

func metadata(dir, name string) string { return filepath.Join(dir, prefix.Metadata, name) }

func factsPath(dir, digest string) string {
	return metadata(dir, filepath.Join(recordsDir, digest+".scr"))
}

// digestName is the form of a digest: nothing that is read may lead elsewhere.
var digestName = regexp.MustCompile(`^[0-9a-f]{32}$`)

// put stores a hash by its contents, unless it is there, and returns its digest.
func put(dir string, h *hash.Hash) (string, error) {
	name := digest(h)
	path := factsPath(dir, name)
	if _, err := hash.ReadFile(path); err == nil {
		return name, nil
	}
	if err := hash.MakeDirs(filepath.Dir(path)); err != nil {
		return "", err
	}
	return name, hash.WriteShared(path, h)
}

func get(dir, name string) (*hash.Hash, error) {
	if !digestName.MatchString(name) {
		return nil, fmt.Errorf("%s: %q is not the name of a record", metadata(dir, recordsFile), name)
	}
	return hash.ReadFile(factsPath(dir, name))
}

// Store stores facts in the prefix directory, each file only once, and returns the digest
// by which checkpoints refer to them.
func (f *Facts) Store(dir string) (string, error) {
	var digests []string
	for _, p := range f.Programs {
		name, err := put(dir, p.encode())
		if err != nil {
			return "", err
		}
		digests = append(digests, name)
	}
	return put(dir, f.encode(digests))
}

// least is how many entries the file may have before any are removed.
const least = 32

// Refer records the facts of a checkpoint that has been completed. Now and then it removes
// what belongs to checkpoints that are gone.
func Refer(dir string, d dataset.Dataset, facts string, ended time.Time) error {
	return hash.Update(metadata(dir, recordsFile), func(h *hash.Hash) error {
		h.UnsetKVInt(keyDataset, d.ID())
		e := h.SetKVInt(keyDataset, d.ID())
		e.SetValue(keyName, d.Name())
		e.SetInt(keyCreated, d.Created().UnixMicro())
		e.SetInt(keyEnded, ended.UnixMicro())
		e.SetValue(keyFacts, facts)
		if n := h.Get(keyDataset).Size(); n < least || n&(n-1) != 0 { // reading the index has its cost
			return nil
		}
		return prune(dir, h, d.ID())
	})
}

// prune removes entries of checkpoints that are neither in the index nor in a cache, and
// facts to which no entry refers. newest is the id of a checkpoint that may not be entered
// there yet.
func prune(dir string, h *hash.Hash, newest int) error {
	list, err := List(dir)
	if err != nil {
		return err
	}
	alive := map[int]bool{newest: true}
	for _, s := range list {
		alive[s.Seq] = true
	}
	used := map[string]bool{}
	for _, id := range h.Get(keyDataset).Ints() {
		if !alive[id] {
			h.UnsetKVInt(keyDataset, id)
			continue
		}
		name := h.GetKVInt(keyDataset, id).Text(keyFacts)
		used[name] = true
		if facts, err := get(dir, name); err == nil {
			for _, p := range facts.Get(keyProgram).All() {
				used[p.Text(keyFacts)] = true
			}
		}
	}
	files, err := os.ReadDir(metadata(dir, recordsDir))
	if err != nil {
		return nil // they stay
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".scr")
		if ok && digestName.MatchString(name) && !used[name] {
			_ = os.Remove(factsPath(dir, name)) // it does no harm
		}
	}
	return nil
}

// Read returns what is recorded with a checkpoint; ErrNone if nothing is.
func Read(dir string, s Snapshot) (*Record, error) {
	h, err := hash.ReadOrNew(metadata(dir, recordsFile))
	if err != nil {
		return nil, err
	}
	e := h.Get(keyDataset, strconv.Itoa(s.Seq))
	created, _ := e.Int(keyCreated)
	if e == nil || e.Text(keyName) != s.Name || created != s.Created.UnixMicro() { // it was of another one with this id
		return nil, fmt.Errorf("checkpoint %d (%s): %w", s.Seq, s.Name, ErrNone)
	}
	facts, err := get(dir, e.Text(keyFacts))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint %d (%s): %w", s.Seq, s.Name, err)
	}
	if err != nil {
		return nil, err
	}
	r := &Record{Seq: s.Seq, Name: s.Name, Begun: s.Created}
	if ended, ok := e.Int(keyEnded); ok {
		r.Ended = time.UnixMicro(ended)
	}
	r.Facts, err = decodeFacts(facts, func(name string) (*hash.Hash, error) { return get(dir, name) })
	return r, err
}
