package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// records.scr says which facts belong to a checkpoint:
//
//	DATASET / <id> / NAME    = <name>
//	                 CREATED = <µs>      as in its description
//	                 ENDED   = <µs>      when it was complete
//	                 FACTS   = <digest>  of the file in records/
//	                 COMMAND = <text>    for a shell: what all ranks run to restart, in place of
//	                                     their programs; only if the program has said so
//	                 OWNER   = <number>  the user who has recorded it, if that is not the owner
//	                                     of this file; -1: not known
const (
	recordsFile = "records.scr"
	recordsDir  = "records"

	nobody = -1 // the owner of an entry that anybody may have written
)

type records struct {
	Datasets map[int]*entry `hash:"DATASET,omitempty"`
}

type entry struct {
	Name    string    `hash:"NAME"`
	Created time.Time `hash:"CREATED"`
	Ended   time.Time `hash:"ENDED,omitempty"`
	Facts   string    `hash:"FACTS"`
	Command string    `hash:"COMMAND,omitempty"`
	Owner   *int      `hash:"OWNER"`
}

// ErrNone is the error of a checkpoint with which nothing was recorded: by SCR 3.1, or
// with SCR_RECORD=0.
var ErrNone = errors.New("nothing is recorded of how the job was started")

func metadata(dir, name string) string { return filepath.Join(dir, prefix.Metadata, name) }

func factsPath(dir, digest string) string {
	return metadata(dir, filepath.Join(recordsDir, digest+".scr"))
}

// digestName is the form of a digest: nothing that is read may lead elsewhere.
var digestName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{32}$`) })

// stored reports whether the file of a digest is there, and whole.
func stored(dir, name string) bool {
	_, err := get(dir, name)
	return err == nil
}

func get(dir, name string) (*hash.Hash, error) {
	if !digestName().MatchString(name) {
		return nil, fmt.Errorf("%s: %q is not the name of a record", metadata(dir, recordsFile), name)
	}
	h, err := hash.ReadFile(factsPath(dir, name))
	if err == nil && digest(h) != name { // another user may have written it
		return nil, fmt.Errorf("%s: %w: its contents are not those of its name", factsPath(dir, name), hash.ErrCorrupt)
	}
	return h, err
}

// Stored are facts in a prefix directory, to which checkpoints refer.
type Stored struct {
	dir   string
	name  string                // digest of the facts
	files map[string]*hash.Hash // by digest: the facts, and each program
}

// Store stores facts in the prefix directory, each file only once.
func (f *Facts) Store(dir string) (*Stored, error) {
	s := &Stored{dir: dir, files: map[string]*hash.Hash{}}
	add := func(h *hash.Hash) string {
		name := digest(h)
		s.files[name] = h
		return name
	}
	var digests []string
	for _, p := range f.Programs {
		digests = append(digests, add(p.encode()))
	}
	s.name = add(f.encode(digests))
	if len(s.missing()) == 0 { // as usual
		return s, nil
	}
	l, err := hash.LockOpenRead(metadata(dir, recordsFile))
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	return s, s.put(s.missing())
}

// missing returns the files that are not there, or damaged.
func (s *Stored) missing() (names []string) {
	for name := range s.files {
		if !stored(s.dir, name) {
			names = append(names, name)
		}
	}
	return names
}

// put writes files. The caller holds the lock of records.scr: other jobs may store the same
// facts, or remove files to which no checkpoint refers.
func (s *Stored) put(names []string) error {
	for _, name := range names {
		path := factsPath(s.dir, name)
		if err := hash.MakeDirs(filepath.Dir(path)); err != nil {
			return err
		}
		if err := hash.ReplaceFile(path, s.files[name].Encode(), mode); err != nil {
			return err
		}
	}
	return nil
}

// removed returns the files that another job has removed, because no checkpoint referred to
// them.
func (s *Stored) removed() (names []string) {
	for name := range s.files {
		if _, err := os.Lstat(factsPath(s.dir, name)); errors.Is(err, fs.ErrNotExist) {
			names = append(names, name)
		}
	}
	return names
}

// least is how many entries the file may have before any are removed.
const least = 32

// Refer records the facts of a checkpoint that has been completed, and the command by which the
// program restarts from it, "" if that is the one that has started it. Now and then it removes what
// belongs to checkpoints that are gone.
func (s *Stored) Refer(d dataset.Dataset, ended time.Time, command string) error {
	return updateRecords(s.dir, func(all *records) error {
		if err := s.put(s.removed()); err != nil {
			return err
		}
		all.Datasets[d.ID()] = &entry{Name: d.Name(), Created: d.Created(), Ended: ended, Facts: s.name, Command: keepText(command)}
		if n := len(all.Datasets); n < least || n&(n-1) != 0 { // reading the index has its cost
			return nil
		}
		return prune(s.dir, all, d.ID())
	})
}

// mode is that of files that can make a command run: others must not write to them.
const mode = 0o644

// updateRecords changes records.scr under its lock. Entries that another user has written, or may
// have, become part of a file of this user, so they get that user's number.
func updateRecords(dir string, change func(*records) error) error {
	path := metadata(dir, recordsFile)
	l, err := lock.Wait(path + hash.LockSuffix)
	if err != nil {
		return err
	}
	defer l.Release()
	h, info, err := hash.ReadOwned(path)
	if errors.Is(err, fs.ErrNotExist) {
		h, err = hash.New(), nil
	}
	if err != nil {
		return err
	}
	all := hash.As[records](h)
	if info != nil {
		if owner := ownerOf(path, info); owner != os.Geteuid() {
			for _, e := range all.Datasets {
				if owner != 0 || e.Owner == nil {
					e.Owner = &owner
				}
			}
		}
	}
	if err := change(&all); err != nil {
		return err
	}
	h.SetFields(all)
	return hash.ReplaceFile(path, h.Encode(), mode)
}

// ownerOf returns which user has written a file: its owner, or nobody if others can write to it.
func ownerOf(path string, info fs.FileInfo) int {
	owner := trust.OwnerOf(info)
	if (trust.Users{}).Check(path, info) != nil && owner == os.Geteuid() {
		return nobody
	}
	return owner
}

// prune removes entries of checkpoints that are neither in the index nor in a cache, and
// facts to which no entry refers. newest is the id of a checkpoint that may not be entered
// there yet.
func prune(dir string, all *records, newest int) error {
	list, err := List(dir)
	if err != nil {
		return err
	}
	alive := map[int]bool{newest: true}
	for _, s := range list {
		alive[s.Seq] = true
	}
	used := map[string]bool{}
	for id, e := range all.Datasets {
		if !alive[id] {
			delete(all.Datasets, id)
			continue
		}
		used[e.Facts] = true
		if facts, err := get(dir, e.Facts); err == nil {
			for _, p := range hash.As[storedFacts](facts).Programs {
				used[p.Facts] = true
			}
		}
	}
	files, err := os.ReadDir(metadata(dir, recordsDir))
	if err != nil {
		return nil // they stay
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".scr")
		if ok && digestName().MatchString(name) && !used[name] {
			_ = os.Remove(factsPath(dir, name)) // it does no harm
		}
	}
	return nil
}

// Read returns what is recorded with a checkpoint; ErrNone if nothing is.
func Read(dir string, s Snapshot) (*Record, error) {
	path := metadata(dir, recordsFile)
	h, info, err := hash.ReadOwned(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	e := hash.As[records](h).Datasets[s.Seq]
	if e == nil || e.Name != s.Name || !e.Created.Equal(s.Created) { // it was of another one with this id
		return nil, fmt.Errorf("checkpoint %d (%s): %w", s.Seq, s.Name, ErrNone)
	}
	facts, err := get(dir, e.Facts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint %d (%s): %w", s.Seq, s.Name, err)
	}
	if err != nil {
		return nil, err
	}
	r := &Record{Seq: s.Seq, Name: s.Name, Begun: s.Created, Ended: e.Ended, Command: e.Command, from: source{path, info, ownerOf(path, info)}}
	if e.Owner != nil {
		r.from.owner = *e.Owner
	}
	r.Facts, err = decodeFacts(facts, func(name string) (*hash.Hash, error) { return get(dir, name) })
	return r, err
}

// Check checks that the record may make a command run: the caller, root or one of the users has
// written it.
func (r *Record) Check(users trust.Users) error {
	if err := users.Check(r.from.path, r.from.info); err != nil {
		return err
	}
	owner := r.from.owner
	if owner == os.Geteuid() || owner == 0 || users[owner] {
		return nil
	}
	e := &trust.ForeignError{Path: fmt.Sprintf("the record of checkpoint %d (%s)", r.Seq, r.Name),
		Reason: "was written by " + trust.Name(owner), Accept: fmt.Sprintf("set %s=%d", trust.Parameter, owner)}
	if owner < 0 {
		e.Reason, e.Accept = "may have been written by another user", "start the program yourself"
	}
	return e
}
