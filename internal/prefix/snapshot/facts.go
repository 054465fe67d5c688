package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
)

// Facts are what is recorded of a job, so that a command can start it again. They are the
// same for all checkpoints of a run.
type Facts struct {
	Version string `json:"version"` // of goscr
	Job     string `json:"job"`     // its id
	User    string `json:"user"`
	Cluster string `json:"cluster"`
	Name    string `json:"job_name"`
	Prefix  string `json:"prefix"` // the prefix directory, as the job saw it
	Manager string `json:"resource_manager"`

	Ranks   int    `json:"ranks"`
	Nodes   []Node `json:"nodes"` // sorted by name
	Modules string `json:"modules"`

	Launcher *Start    `json:"launcher"` // the command that has started the ranks; nil if it was not found
	Runner   *Start    `json:"scr_run"`  // the scr_run that has started the launcher; nil if none has
	Programs []Program `json:"programs"` // by first rank; one, unless the ranks run several programs
	Partial  bool      `json:"partial"`  // there are too many programs to record more than the first
}

// Node is a node on which ranks run.
type Node struct {
	Name  string `json:"name"`
	Ranks int    `json:"ranks"`
}

// Start is how a process was started.
type Start struct {
	Argv []string `json:"argv"` // words that may be secrets are Withheld
	Dir  string   `json:"dir"`  // its working directory
}

// Program is what consecutive ranks run.
type Program struct {
	First int `json:"first_rank"`
	Ranks int `json:"ranks"`
	Start
	// Environ has the variables that keepVariable keeps, NAME=value, of the first rank.
	Environ []string `json:"environ"`
}

// Record is what is recorded with one checkpoint.
type Record struct {
	Facts
	Seq   int       `json:"sequence"`
	Name  string    `json:"name"`
	Begun time.Time `json:"begun"` // when the program began to write it
	Ended time.Time `json:"ended"` // when it was complete
	// Command is what all ranks run to restart from it, for a shell; "": their programs.
	Command string `json:"restart_command,omitempty"`

	file  string // records.scr, from which it was read
	info  fs.FileInfo
	owner int // who has written it; nobody: not known
}

// The facts are stored in records/<digest>.scr, and each program in such a file of its own:
//
//	GOSCR, JOB, USER, CLUSTER, JOBNAME, PREFIX, MANAGER, MODULES, RANKS = ...
//	NODE / <name> = <ranks>
//	LAUNCHER, RUNNER / ARGV / <n> = <word>
//	                   DIR = <path>
//	PROGRAM / <first rank> / RANKS = n, FACTS = <digest>
//	PARTIAL = 1
//
// and of a program:
//
//	ARGV / <n> = <word>
//	DIR = <path>
//	ENV / <name> = <value>
const (
	keyVersion  = "GOSCR"
	keyJob      = "JOB"
	keyUser     = "USER"
	keyCluster  = "CLUSTER"
	keyJobName  = "JOBNAME"
	keyPrefix   = "PREFIX"
	keyManager  = "MANAGER"
	keyModules  = "MODULES"
	keyRanks    = "RANKS"
	keyNode     = "NODE"
	keyLauncher = "LAUNCHER"
	keyRunner   = "RUNNER"
	keyArgv     = "ARGV"
	keyDir      = "DIR"
	keyProgram  = "PROGRAM"
	keyFacts    = "FACTS"
	keyPartial  = "PARTIAL"
	keyEnv      = "ENV"
)

// texts are the fields of Facts that are one text, by their keys.
func (f *Facts) texts() map[string]*string {
	return map[string]*string{keyVersion: &f.Version, keyJob: &f.Job, keyUser: &f.User, keyCluster: &f.Cluster, keyJobName: &f.Name,
		keyPrefix: &f.Prefix, keyManager: &f.Manager, keyModules: &f.Modules}
}

func (s Start) encode(h *hash.Hash) {
	for i, word := range s.Argv {
		h.At(keyArgv).SetValue(strconv.Itoa(i), word)
	}
	h.SetValue(keyDir, s.Dir)
}

func decodeStart(h *hash.Hash) *Start {
	if h == nil {
		return nil
	}
	s := &Start{Dir: h.Text(keyDir)}
	words := h.Get(keyArgv)
	for _, i := range words.Ints() {
		s.Argv = append(s.Argv, words.Text(strconv.Itoa(i)))
	}
	return s
}

// encode returns the hash of a program, without its ranks.
func (p Program) encode() *hash.Hash {
	h := hash.New()
	p.Start.encode(h)
	for _, v := range p.Environ {
		name, value := cut(v)
		h.At(keyEnv).SetValue(name, value)
	}
	return h
}

func decodeProgram(h *hash.Hash) Program {
	p := Program{Start: *decodeStart(h)}
	for name := range h.Get(keyEnv).All() {
		p.Environ = append(p.Environ, name+"="+h.Get(keyEnv).Text(name))
	}
	return p
}

// encode returns the hash of the facts. digests are those of the programs.
func (f *Facts) encode(digests []string) *hash.Hash {
	h := hash.New()
	texts := f.texts()
	for _, key := range slices.Sorted(maps.Keys(texts)) { // the digest depends on the order
		if text := *texts[key]; text != "" {
			h.SetValue(key, text)
		}
	}
	h.SetInt(keyRanks, int64(f.Ranks))
	for _, n := range f.Nodes {
		h.At(keyNode).SetInt(n.Name, int64(n.Ranks))
	}
	if f.Launcher != nil {
		f.Launcher.encode(h.At(keyLauncher))
	}
	if f.Runner != nil {
		f.Runner.encode(h.At(keyRunner))
	}
	for i, p := range f.Programs {
		e := h.At(keyProgram, strconv.Itoa(p.First))
		e.SetInt(keyRanks, int64(p.Ranks))
		e.SetValue(keyFacts, digests[i])
	}
	if f.Partial {
		h.SetValue(keyPartial, "1")
	}
	return h
}

// decodeFacts is the reverse of encode. program returns the hash of a digest.
func decodeFacts(h *hash.Hash, program func(digest string) (*hash.Hash, error)) (f Facts, err error) {
	for key, text := range f.texts() {
		*text = h.Text(key)
	}
	ranks, _ := h.Int(keyRanks)
	f.Ranks, f.Partial = int(ranks), h.Text(keyPartial) == "1"
	for name := range h.Get(keyNode).All() {
		n, _ := h.Get(keyNode).Int(name)
		f.Nodes = append(f.Nodes, Node{name, int(n)})
	}
	f.Launcher, f.Runner = decodeStart(h.Get(keyLauncher)), decodeStart(h.Get(keyRunner))
	for _, first := range h.Get(keyProgram).Ints() {
		e := h.Get(keyProgram, strconv.Itoa(first))
		one, err := program(e.Text(keyFacts))
		if err != nil {
			return f, err
		}
		p := decodeProgram(one)
		n, _ := e.Int(keyRanks)
		p.First, p.Ranks = first, int(n)
		f.Programs = append(f.Programs, p)
	}
	return f, nil
}

// digest is the name of a file by its contents.
func digest(h *hash.Hash) string {
	sum := sha256.Sum256(h.Encode())
	return hex.EncodeToString(sum[:16])
}
