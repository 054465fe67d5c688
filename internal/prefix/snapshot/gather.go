package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/sys/processes"
	"github.com/goscr/goscr/mpi"
)

// mostPrograms is how many programs of a job are recorded: rank 0 has all of them in its
// memory.
const mostPrograms = 256

// Gather returns on rank 0 what is to be recorded of the job; nil on other ranks, and
// if rank 0 cannot find out how it was started. own is how the caller was started, and alike whether all ranks were started so,
// see Start.Digest. Rank 0 passes the nodes of the job. Gather is collective; the error is agreed.
func Gather(world mpi.Comm, own Start, alike bool, nodes []Node, cfg *config.Config, version string) (*Facts, error) {
	environ := func() ([]string, error) { return environ(strings.Fields(cfg.RecordEnv)) }
	programs, partial, err := gatherPrograms(world, own, alike, environ)
	if err != nil || world.Rank() != 0 || len(programs[0].Argv) == 0 {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	f := &Facts{Version: version, Job: cfg.JobID, User: cfg.UserName, Cluster: cfg.ClusterName, Name: cfg.JobName, Prefix: cfg.Prefix,
		Ranks: world.Size(), Nodes: nodes, Modules: os.Getenv("LOADEDMODULES"), Programs: programs, Partial: partial}
	f.Launcher, f.Runner = findLaunch(cfg.Prefix)
	return f, nil
}

// Digest returns a digest. All ranks were started alike if the largest of all ranks is also the smallest.
func (s Start) Digest() int64 {
	sum := sha256.Sum256(hash.Marshal(s).Pack(nil))
	return int64(binary.LittleEndian.Uint64(sum[:]))
}

// OfThisProcess returns how this process was started; it is empty if /proc does not tell.
func OfThisProcess() Start {
	argv, err := processes.Argv(os.Getpid())
	if err != nil {
		return Start{}
	}
	dir, err := processes.Dir(os.Getpid())
	if err != nil {
		return Start{}
	}
	return Start{keepWords(argv), dir}
}

// environ returns the variables that are recorded of the environment of this process as it was
// started, before MPI or the program has changed it; more are patterns of further names.
func environ(more []string) ([]string, error) {
	all, err := processes.Environ(os.Getpid())
	return keepEnviron(all, more), err
}

// gatherPrograms returns on rank 0 the programs of all ranks: one, without a message, if they were started alike. A rank begins a program of
// its own if its command line or working directory is not that of the rank below it. Only the
// ranks that begin one look up its environment.
func gatherPrograms(world mpi.Comm, own Start, alike bool, environ func() ([]string, error)) (list []Program, partial bool, err error) {
	const keyProgram = "PROGRAM"
	rank, size := world.Rank(), world.Size()
	switch {
	case alike && rank > 0:
		return nil, false, nil
	case alike:
		return []Program{program(own, size, environ)}, false, nil
	}
	start := hash.Marshal(own)
	below := hash.Sendrecv(start, (rank+1)%size, (rank+size-1)%size, world)
	begins := rank == 0 || !below.Equal(start)
	n := mpi.AllreduceOne(world, map[bool]int{true: 1}[begins], mpi.Sum)
	if !begins && n > mostPrograms {
		return nil, true, nil
	}
	var mine Program
	if begins {
		mine = program(own, size, environ)
	}
	if n > mostPrograms {
		return []Program{mine}, true, nil
	}
	send := hash.New()
	if begins {
		send.At("0").Set(keyProgram, mine.encode())
	}
	received, err := hash.Exchange(send, world)
	if err != nil || rank != 0 {
		return nil, false, err
	}
	for _, first := range received.Ints() {
		p := decodeProgram(received.Get(strconv.Itoa(first), keyProgram))
		p.First = first
		list = append(list, p)
	}
	for i := range list {
		end := size
		if i+1 < len(list) {
			end = list[i+1].First
		}
		list[i].Ranks = end - list[i].First
	}
	return list, false, nil
}

// program returns a program of so many ranks; one of no words if its environment cannot be read.
func program(own Start, ranks int, environ func() ([]string, error)) Program {
	variables, err := environ()
	if err != nil {
		own = Start{}
	}
	return Program{Start: own, Ranks: ranks, Environ: variables}
}
