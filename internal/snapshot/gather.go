package snapshot

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/processes"
	"github.com/goscr/goscr/mpi"
)

// mostPrograms is how many programs of a job are recorded: rank 0 has all of them in its
// memory.
const mostPrograms = 256

// Gather returns on rank 0 what is to be recorded of the job; nil on other ranks, and
// if rank 0 cannot find out how it was started. node is the communicator of the ranks on
// the caller's node. It is collective, and fails only with MPI.
func Gather(world, node mpi.Comm, cfg *config.Config, version string) (*Facts, error) {
	mine := ofThisProcess(strings.Fields(cfg.RecordEnv))
	programs, partial, err := gatherPrograms(world, mine)
	if err != nil {
		return nil, err
	}
	nodes, err := gatherNodes(world, node, cfg.NodeName)
	if err != nil || world.Rank() != 0 || len(mine.Argv) == 0 {
		return nil, err
	}
	f := &Facts{Version: version, Job: cfg.JobID, User: cfg.UserName, Cluster: cfg.ClusterName, Name: cfg.JobName, Prefix: cfg.Prefix,
		Ranks: world.Size(), Nodes: nodes, Modules: os.Getenv("LOADEDMODULES"), Programs: programs, Partial: partial}
	f.Launcher, f.Runner = findLaunch(cfg.Prefix)
	return f, nil
}

// ofThisProcess returns what this process runs; it is empty if /proc does not tell.
func ofThisProcess(more []string) Program {
	self, err := processes.Read(os.Getpid())
	if err != nil {
		return Program{}
	}
	dir, err := processes.Dir(self.PID)
	if err != nil {
		return Program{}
	}
	// As it was started, before MPI or the program has changed it.
	environ, err := processes.Environ(self.PID)
	if err != nil {
		return Program{}
	}
	return Program{Start: Start{keepWords(self.Argv), dir}, Environ: keepEnviron(environ, more)}
}

// gatherPrograms returns on rank 0 the programs of all ranks. A rank begins a program of
// its own if its command line or working directory is not that of the rank below it.
func gatherPrograms(world mpi.Comm, mine Program) (list []Program, partial bool, err error) {
	start := hash.New()
	mine.Start.encode(start)
	rank, size := world.Rank(), world.Size()
	mine.Ranks = size
	if size == 1 {
		return []Program{mine}, false, nil
	}
	below, err := hash.Sendrecv(start, (rank+1)%size, (rank+size-1)%size, world)
	if err != nil {
		return nil, false, err
	}
	begins := rank == 0 || !below.Equal(start)
	n, err := mpi.AllreduceOne(world, map[bool]int{true: 1}[begins], mpi.Sum)
	if err != nil {
		return nil, false, err
	}
	if partial = n > mostPrograms; partial || n == 1 {
		return []Program{mine}, partial, nil
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

// gatherNodes returns on rank 0 the nodes of the job.
func gatherNodes(world, node mpi.Comm, name string) (list []Node, err error) {
	send := hash.New()
	if node.Rank() == 0 {
		send.At("0").SetInt(name, int64(node.Size()))
	}
	received, err := hash.Exchange(send, world)
	if err != nil {
		return nil, err
	}
	for _, from := range received.All() {
		for name := range from.All() {
			n, _ := from.Int(name)
			list = append(list, Node{name, int(n)})
		}
	}
	slices.SortFunc(list, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
