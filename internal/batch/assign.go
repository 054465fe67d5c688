package batch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/internal/hostlist"
)

// decisive are options by which the user decides where ranks run, by which srun and mpirun
// are kept from running them elsewhere.
var decisive = []string{"--map-by", "-map-by", "--rankfile", "-rf", "-N", "--npernode", "-npernode", "--host", "-host", "-H",
	"--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f", "--ppr"}

// decisiveSrun are those of srun. The number of nodes (-N) can be changed.
var decisiveSrun = []string{"-m", "--distribution", "-w", "--nodelist", "--ntasks-per-node", "-r", "--relative", "-x", "--exclude"}

// CanAssign returns an error if the launcher cannot be told on which node each rank of a
// command line is to run.
func (l Launcher) CanAssign(argv []string) error {
	if l.hosts == nil {
		return fmt.Errorf("%s cannot be told on which node each rank is to run", l.name)
	}
	options := decisive
	if takesNodes(argv) {
		options = decisiveSrun
	}
	if list := given(argv, options...); len(list) > 0 {
		return fmt.Errorf("%s of the command line decides on which nodes ranks run", strings.Join(list, ", "))
	}
	return nil
}

// assign returns the command line that starts rank i on p.Hosts[i].
func (l Launcher) assign(argv []string, p Placement) (Launch, error) {
	if err := l.CanAssign(argv); err != nil {
		return Launch{}, err
	}
	return l.hosts(argv, p)
}

// hostsSrun lists the node of each task in a file. srun takes as many nodes as are in it.
func hostsSrun(argv []string, p Placement) (Launch, error) {
	path, err := rankFile(p, p.Hosts)
	n := len(hostlist.Union(p.Hosts))
	nodes := strconv.Itoa(n)
	argv = replaceCounts(argv, nodeCounts, func(int) int { return n })
	return Launch{Argv: insert(argv, 1, "--distribution=arbitrary"), Env: []string{"SLURM_OVERLAP=1", "SLURM_KILL_BAD_EXIT=1",
		"SLURM_NNODES=" + nodes, "SLURM_JOB_NUM_NODES=" + nodes, "SLURM_HOSTFILE=" + path}}, err
}

// hostsOpenMPI lists the node of each rank in a file that is followed line by line.
func hostsOpenMPI(argv []string, p Placement) (Launch, error) {
	path, err := rankFile(p, p.Hosts)
	l := Launch{Argv: insert(argv, 1, "--map-by", "seq", "--hostfile", path), Env: []string{"SLURM_OVERLAP=1"}}
	for _, name := range p.Vars {
		l.Argv = insert(l.Argv, 1, "-x", name)
	}
	return l, err
}

// hostsHydra lists the node of each group of consecutive ranks, with their number.
func hostsHydra(argv []string, p Placement) (Launch, error) {
	var lines []string
	for i := 0; i < len(p.Hosts); {
		n := 1
		for i+n < len(p.Hosts) && p.Hosts[i+n] == p.Hosts[i] {
			n++
		}
		lines = append(lines, fmt.Sprintf("%s:%d", p.Hosts[i], n))
		i += n
	}
	// Hydra takes lines with the same node that are not consecutive for several nodes.
	if names := hostlist.Union(p.Hosts); len(names) < len(lines) {
		return Launch{}, fmt.Errorf("mpiexec of MPICH cannot start ranks on %s that are not consecutive", hostlist.Compress(names))
	}
	path, err := rankFile(p, lines)
	return Launch{Argv: insert(argv, 1, "-f", path), Env: []string{"SLURM_OVERLAP=1"}}, err
}

// rankFile writes a file of lines, and returns its path.
func rankFile(p Placement, lines []string) (string, error) {
	path := filepath.Join(p.Dir, "hosts")
	return path, os.WriteFile(path, []byte(strings.Join(slices.Concat(lines, []string{""}), "\n")), 0o666)
}
