package batch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/internal/hostlist"
)

// Placement says where a program is to be started.
type Placement struct {
	Nodes  []string       // that are usable, in the manager's order
	Down   []string       // that are not, and must not be touched
	Needed int            // nodes to use
	Slots  map[string]int // ranks a node may have, where that is known
	Dir    string         // a directory to leave a host file in
	// Listed says that the launcher cannot know the nodes by itself.
	Listed bool
	// Vars are the names of variables that the program needs, for launchers that
	// do not pass them on by themselves.
	Vars []string
}

// Launch is a command to run.
type Launch struct {
	Argv []string
	Env  []string // to be added to the environment, NAME=VALUE
}

// Launcher writes the command lines of one launcher.
type Launcher struct {
	name  string
	place func(argv []string, p Placement) (Launch, error)
}

// Name is the name of the command.
func (l Launcher) Name() string { return l.name }

// Command returns the command line that starts argv, which the user gave, on
// the nodes of p. Variables that the user has set in the environment win.
func (l Launcher) Command(argv []string, p Placement) (Launch, error) {
	launch, err := l.place(slices.Clone(argv), p)
	launch.Env = slices.DeleteFunc(launch.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, set := os.LookupEnv(name)
		return set && !slices.Contains(overruled, name)
	})
	return launch, err
}

// overruled are variables that are set nevertheless: the batch script inherits them
// from Slurm, and they are wrong once a node is lost.
var overruled = []string{"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}

// FindLauncher returns the launcher of a command line. mpirun and mpiexec are
// asked whose they are.
func FindLauncher(ctx context.Context, argv []string) (Launcher, error) {
	if len(argv) == 0 {
		return Launcher{}, fmt.Errorf("no launcher given; one of %s is wanted", strings.Join(Launchers(), ", "))
	}
	name := filepath.Base(argv[0])
	kind, _, _ := strings.Cut(name, ".") // Debian's mpirun.openmpi
	place, ok := launchers[kind]
	if !ok {
		return Launcher{}, fmt.Errorf("%s is no launcher that is known; one of %s is wanted", argv[0], strings.Join(Launchers(), ", "))
	}
	if place == nil {
		text, err := output(ctx, argv[0], "--version")
		if err != nil {
			return Launcher{}, err
		}
		place = placeHydra
		if strings.Contains(text, "Open MPI") || strings.Contains(text, "OpenRTE") || strings.Contains(text, "PRRTE") {
			place = placeOpenMPI
		}
	}
	return Launcher{name, place}, nil
}

var launchers = map[string]func([]string, Placement) (Launch, error){
	"srun": placeSrun, "mpirun": nil, "mpiexec": nil, "orterun": placeOpenMPI, "prterun": placeOpenMPI,
	"flux": placeFlux, "jsrun": placeJsrun, "lrun": placeJsrun, "aprun": placeAprun,
}

// Launchers are the names of the supported launchers.
func Launchers() []string {
	var names []string
	for name := range launchers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// insert puts options in front of the user's, right behind the name.
func insert(argv []string, at int, options ...string) []string {
	return slices.Insert(argv, at, options...)
}

// placeSrun lets Slurm choose among the nodes that are left. A job step that ended
// before Slurm declared its lost node down keeps its processors, and a later step would
// wait for them for ever, unless steps may overlap.
func placeSrun(argv []string, p Placement) (Launch, error) {
	l := Launch{Argv: argv, Env: []string{"SLURM_OVERLAP=1", "SLURM_KILL_BAD_EXIT=1"}}
	if len(p.Down) > 0 {
		l.Argv = insert(argv, 1, "--exclude="+strings.Join(p.Down, ","))
		// Without -N, srun takes the number of nodes from these variables, and would
		// wait for nodes that are lost.
		n := strconv.Itoa(p.Needed)
		l.Env = append(l.Env, "SLURM_NNODES="+n, "SLURM_JOB_NUM_NODES="+n)
	}
	return l, nil
}

// placeOpenMPI lists the nodes in a file. Under a manager, mpirun uses those nodes of
// the allocation that are in the file.
func placeOpenMPI(argv []string, p Placement) (Launch, error) {
	l := Launch{Argv: argv, Env: []string{"SLURM_OVERLAP=1"}}
	for _, name := range p.Vars {
		l.Argv = insert(l.Argv, 1, "-x", name)
	}
	if len(p.Down) == 0 && !p.Listed {
		return l, nil
	}
	path, err := hostFile(p, func(node string, slots int) string { return fmt.Sprintf("%s slots=%d", node, slots) })
	l.Argv = insert(l.Argv, 1, "--hostfile", path)
	return l, err
}

// placeHydra is MPICH's mpiexec and its descendants.
func placeHydra(argv []string, p Placement) (Launch, error) {
	l := Launch{Argv: argv, Env: []string{"SLURM_OVERLAP=1"}}
	if len(p.Down) == 0 && !p.Listed {
		return l, nil
	}
	path, err := hostFile(p, func(node string, slots int) string { return fmt.Sprintf("%s:%d", node, slots) })
	l.Argv = insert(argv, 1, "-f", path)
	return l, err
}

// hostFile writes the nodes to use. Spares are not among them: the launcher would use
// them, too.
func hostFile(p Placement, line func(node string, slots int) string) (string, error) {
	var text strings.Builder
	for i, n := range p.Nodes {
		if p.Needed > 0 && i >= p.Needed {
			break
		}
		if slots := p.Slots[n]; slots > 0 {
			n = line(n, slots)
		}
		fmt.Fprintln(&text, n)
	}
	path := filepath.Join(p.Dir, "hosts")
	return path, os.WriteFile(path, []byte(text.String()), 0o666)
}

// placeFlux is `flux run`; options belong behind the word run.
func placeFlux(argv []string, p Placement) (Launch, error) {
	if len(argv) < 2 || argv[1] != "run" && argv[1] != "mini" {
		return Launch{}, fmt.Errorf("flux needs the word run behind it: flux run OPTIONS PROGRAM")
	}
	at := 2
	if argv[1] == "mini" {
		at = 3 // flux mini run, until 0.48
	}
	if len(p.Down) > 0 && len(argv) >= at {
		argv = insert(argv, at, "--requires=not host:"+strings.Join(p.Down, ","))
	}
	return Launch{Argv: argv}, nil
}

// placeJsrun is jsrun and the lrun that wraps it.
func placeJsrun(argv []string, p Placement) (Launch, error) {
	if len(p.Down) > 0 {
		argv = insert(argv, 1, "--exclude_hosts="+strings.Join(p.Down, ","))
	}
	return Launch{Argv: argv}, nil
}

// placeAprun names the numbers of all nodes that may be used.
func placeAprun(argv []string, p Placement) (Launch, error) {
	if len(p.Down) == 0 {
		return Launch{Argv: argv}, nil
	}
	var numbers []string
	for _, n := range p.Nodes {
		number, err := strconv.ParseUint(strings.TrimPrefix(n, "nid"), 10, 31)
		if err != nil {
			return Launch{}, fmt.Errorf("aprun: %s is not the name of a node of ALPS, nid and a number", n)
		}
		numbers = append(numbers, strconv.FormatUint(number, 10))
	}
	list := strings.Trim(hostlist.Compress(numbers), "[]")
	return Launch{Argv: insert(argv, 1, "-L", list)}, nil
}
