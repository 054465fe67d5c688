package batch

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/hostlist"
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
	list := contexts(argv)
	for _, context := range list {
		if list := given(context, options...); len(list) > 0 {
			return fmt.Errorf("%s of the command line decides on which nodes ranks run", strings.Join(list, ", "))
		}
		if _, err := ranksOf(context); len(list) > 1 && err != nil {
			return err
		}
	}
	return nil
}

// separator is between the programs of a command line that has several, each with options of
// its own.
const separator = ":"

// contexts returns the command line of each program, as if it were the only one.
func contexts(argv []string) (list [][]string) {
	for len(argv) > 0 {
		rest := argv[1:] // without the launcher, or the separator
		n := slices.Index(rest, separator)
		if n < 0 {
			n = len(rest)
		}
		list = append(list, append([]string{"mpirun"}, rest[:n]...))
		argv = rest[n:]
	}
	return list
}

// insertEach puts options in front of those of each program. options is called with its
// number.
func insertEach(argv []string, options func(i int) []string) (all []string) {
	i := 0
	for at, word := range argv {
		all = append(all, word)
		if at == 0 || word == separator {
			all = append(all, options(i)...)
			i++
		}
	}
	return all
}

// ranksOf returns the number of ranks of a program of several.
func ranksOf(context []string) (n int, err error) {
	counts := []string{"-n", "-np", "--n", "--np", "-c"}
	if len(given(context, counts...)) == 1 {
		replaceCounts(slices.Clone(context), counts, func(found int) int { n = found; return found })
	}
	if n == 0 {
		err = fmt.Errorf("the command line does not say how many ranks run %q", strings.Join(context[1:], " "))
	}
	return n, err
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
	path, err := rankFile(p, "hosts", p.Hosts)
	n := len(hostlist.Union(p.Hosts))
	nodes := strconv.Itoa(n)
	argv = replaceCounts(argv, nodeCounts, func(int) int { return n })
	return Launch{Argv: insert(argv, 1, "--distribution=arbitrary"), Env: []string{"SLURM_OVERLAP=1", "SLURM_KILL_BAD_EXIT=1",
		"SLURM_NNODES=" + nodes, "SLURM_JOB_NUM_NODES=" + nodes, "SLURM_HOSTFILE=" + path}}, err
}

// hostsOpenMPI lists the node of each rank in a file that is followed line by line, one file
// for each program.
func hostsOpenMPI(argv []string, p Placement) (Launch, error) {
	files := [][]string{p.Hosts}
	if programs := contexts(argv); len(programs) > 1 {
		files = nil
		left := p.Hosts
		for _, context := range programs {
			n, err := ranksOf(context)
			if err != nil {
				return Launch{}, err
			}
			if n > len(left) {
				return Launch{}, fmt.Errorf("the command line does not have %d ranks", len(p.Hosts))
			}
			files, left = append(files, left[:n]), left[n:]
		}
		if len(left) > 0 {
			return Launch{}, fmt.Errorf("the command line does not have %d ranks", len(p.Hosts))
		}
	}
	var failed error
	argv = insertEach(argv, func(i int) []string {
		name := "hosts"
		if i > 0 {
			name += fmt.Sprintf(".%d", i)
		}
		path, err := rankFile(p, name, files[i])
		failed = errors.Join(failed, err)
		return append(vars(p), "--hostfile", path)
	})
	return Launch{Argv: insert(argv, 1, "--map-by", "seq"), Env: []string{"SLURM_OVERLAP=1"}}, failed
}

// vars are the options by which mpirun of Open MPI passes variables on.
func vars(p Placement) (options []string) {
	for _, name := range p.Vars {
		options = append(options, "-x", name)
	}
	return options
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
	path, err := rankFile(p, "hosts", lines)
	return Launch{Argv: insert(argv, 1, "-f", path), Env: []string{"SLURM_OVERLAP=1"}}, err
}

// rankFile writes a file of lines, and returns its path.
func rankFile(p Placement, name string, lines []string) (string, error) {
	path := filepath.Join(p.Dir, name)
	return path, hash.ReplaceFile(path, []byte(strings.Join(slices.Concat(lines, []string{""}), "\n")), 0o644)
}
