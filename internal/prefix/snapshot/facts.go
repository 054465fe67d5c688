package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
)

// Facts are what is recorded of a job, so that a command can start it again. They are the
// same for all checkpoints of a run. They are stored in records/<digest>.scr, and each program
// in such a file of its own:
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
type Facts struct {
	Version string `json:"version" hash:"GOSCR,omitempty"` // of goscr
	Job     string `json:"job" hash:"JOB,omitempty"`       // its id
	User    string `json:"user" hash:"USER,omitempty"`
	Cluster string `json:"cluster" hash:"CLUSTER,omitempty"`
	Name    string `json:"job_name" hash:"JOBNAME,omitempty"`
	Prefix  string `json:"prefix" hash:"PREFIX,omitempty"` // the prefix directory, as the job saw it
	Manager string `json:"resource_manager" hash:"MANAGER,omitempty"`

	Ranks   int    `json:"ranks" hash:"RANKS"`
	Nodes   []Node `json:"nodes"` // sorted by name
	Modules string `json:"modules" hash:"MODULES,omitempty"`

	Launcher *Start    `json:"launcher" hash:"LAUNCHER"`         // the command that has started the ranks; nil if it was not found
	Runner   *Start    `json:"scr_run" hash:"RUNNER"`            // the scr_run that has started the launcher; nil if none has
	Programs []Program `json:"programs"`                         // by first rank; one, unless the ranks run several programs
	Partial  bool      `json:"partial" hash:"PARTIAL,omitempty"` // there are too many programs to record more than the first
}

// storedFacts are facts with the fields that have other types in the file.
type storedFacts struct {
	Facts
	RanksOf  map[string]int        `hash:"NODE,omitempty"`
	Programs map[int]storedProgram `hash:"PROGRAM,omitempty"` // by first rank
}

type storedProgram struct {
	Ranks int    `hash:"RANKS"`
	Facts string `hash:"FACTS"` // digest of its file
}

// Node is a node on which ranks run.
type Node struct {
	Name  string `json:"name"`
	Ranks int    `json:"ranks"`
}

// Start is how a process was started.
type Start struct {
	Argv []string `json:"argv" hash:"ARGV,omitempty"` // words that may be secrets are Withheld
	Dir  string   `json:"dir" hash:"DIR"`             // its working directory
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

	from source
}

// source says where a record was read, and who has written it.
type source struct {
	path  string // of records.scr
	info  fs.FileInfo
	owner int // which user has written the entry; nobody: not known
}

// encode returns the hash of a program, without its ranks.
func (p Program) encode() *hash.Hash {
	h := hash.Marshal(p.Start)
	for _, v := range p.Environ {
		name, value := cut(v)
		h.At("ENV").SetValue(name, value)
	}
	return h
}

func decodeProgram(h *hash.Hash) Program {
	p := Program{Start: hash.As[Start](h)}
	for name := range h.Get("ENV").All() {
		p.Environ = append(p.Environ, name+"="+h.Get("ENV").Text(name))
	}
	return p
}

// encode returns the hash of the facts. digests are those of the programs.
func (f *Facts) encode(digests []string) *hash.Hash {
	s := storedFacts{Facts: *f, RanksOf: map[string]int{}, Programs: map[int]storedProgram{}}
	for _, n := range f.Nodes {
		s.RanksOf[n.Name] = n.Ranks
	}
	for i, p := range f.Programs {
		s.Programs[p.First] = storedProgram{p.Ranks, digests[i]}
	}
	return hash.Marshal(s)
}

// decodeFacts is the reverse of encode. program returns the hash of a digest.
func decodeFacts(h *hash.Hash, program func(digest string) (*hash.Hash, error)) (Facts, error) {
	s := hash.As[storedFacts](h)
	f := s.Facts
	for _, name := range slices.Sorted(maps.Keys(s.RanksOf)) {
		f.Nodes = append(f.Nodes, Node{name, s.RanksOf[name]})
	}
	for _, first := range slices.Sorted(maps.Keys(s.Programs)) {
		one, err := program(s.Programs[first].Facts)
		if err != nil {
			return f, err
		}
		p := decodeProgram(one)
		p.First, p.Ranks = first, s.Programs[first].Ranks
		f.Programs = append(f.Programs, p)
	}
	return f, nil
}

// digest is the name of a file by its contents.
func digest(h *hash.Hash) string {
	sum := sha256.Sum256(h.Encode())
	return hex.EncodeToString(sum[:16])
}
