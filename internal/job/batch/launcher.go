package batch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/hostlist"
)

// Placement says where a program is to be started.
type Placement struct {
	Nodes  []string       // nodes that can be used, in the manager's order
	Down   []string       // nodes that must not be used
	Needed int            // number of nodes to use
	Hosts  []string       // the node of each rank; nil: the launcher decides
	Usual  int            // number of nodes for which the user's command line was written; 0: Needed
	Slots  map[string]int // most ranks on a node, by node, if known
	Dir    string         // directory in which a host file can be written
	// Listed says that the launcher does not know the nodes and needs a list of them.
	Listed bool
	// Vars are the names of variables that the program needs. Some launchers pass on
	// only those that their command line names.
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
	hydra bool // it is MPICH's, or one with its options
	launching
}

// launching writes the command lines of a kind of launcher.
type launching struct {
	// place lets the launcher decide which rank runs on which of the nodes.
	place func(argv []string, p Placement) (Launch, error)
	// hosts passes the node of each rank to it; nil if that is not possible.
	hosts func(argv []string, p Placement) (Launch, error)
	// rejects matches lines by which it rejects its options; nil if they are not known.
	rejects func() *regexp.Regexp
}

// Name is the name of the command.
func (l Launcher) Name() string { return l.name }

// HostFileOption is the option of an mpirun or mpiexec that names a file with nodes.
func (l Launcher) HostFileOption() string {
	if l.hydra {
		return "-f"
	}
	return "--hostfile"
}

// AppFileOption is the option of an mpirun or mpiexec that names a file with programs and
// the numbers of their ranks.
func (l Launcher) AppFileOption() string {
	if l.hydra {
		return "-configfile"
	}
	return "--app"
}

// Command returns the command line that starts argv, which the user gave, on the nodes
// of p. It does not set variables that the user has set in the environment, except those
// in overruled.
func (l Launcher) Command(argv []string, p Placement) (Launch, error) {
	argv = slices.Clone(argv)
	if p.Usual > p.Needed {
		argv = shrink(argv, p.Needed, p.Usual)
	}
	if p.Hosts != nil {
		launch, err := l.assign(argv, p)
		return l.keepUsers(launch), err
	}
	launch, err := l.place(argv, p)
	return l.keepUsers(launch), err
}

// keepUsers removes variables that the user has set from the environment of a launch.
func (Launcher) keepUsers(launch Launch) Launch {
	launch.Env = slices.DeleteFunc(launch.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, set := os.LookupEnv(name)
		return set && !slices.Contains(overruled, name)
	})
	return launch
}

// overruled are the variables that Command sets even if they are set already: the batch
// script inherits them from Slurm, and they are wrong once a node is down.
var overruled = []string{"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_HOSTFILE"}

// FindLauncher returns the launcher of a command line. Several MPIs have an mpirun and an
// mpiexec, so these are run with --version to learn which MPI they belong to.
func FindLauncher(ctx context.Context, argv []string) (Launcher, error) {
	if len(argv) == 0 {
		return Launcher{}, fmt.Errorf("no launcher given; it must be one of %s", strings.Join(Launchers(), ", "))
	}
	name := filepath.Base(argv[0])
	kind, _, _ := strings.Cut(name, ".") // Debian has mpirun.openmpi
	how, ok := launchers[kind]
	hydra := false
	if !ok {
		return Launcher{}, fmt.Errorf("%s is not a known launcher; it must be one of %s", argv[0], strings.Join(Launchers(), ", "))
	}
	if how.place == nil {
		text, err := output(ctx, argv[0], "--version")
		if err != nil {
			return Launcher{}, err
		}
		how, hydra = byHydra, true
		if strings.Contains(text, "Open MPI") || strings.Contains(text, "OpenRTE") || strings.Contains(text, "PRRTE") {
			how, hydra = byOpenMPI, false
		}
	}
	return Launcher{name, hydra, how}, nil
}

var (
	bySrun    = launching{placeSrun, hostsSrun, srunRejects}
	byOpenMPI = launching{placeOpenMPI, hostsOpenMPI, openMPIRejects}
	byHydra   = launching{placeHydra, hostsHydra, hydraRejects}
)

// launchers are the kinds of launchers, by the name of the command; zero if the name alone
// does not tell which MPI it belongs to.
var launchers = map[string]launching{
	"srun": bySrun, "mpirun": {}, "mpiexec": {}, "orterun": byOpenMPI, "prterun": byOpenMPI,
	"flux": {place: placeFlux}, "jsrun": {place: placeJsrun}, "lrun": {place: placeJsrun}, "aprun": {place: placeAprun},
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

// insert puts options in front of the user's options.
func insert(argv []string, at int, options ...string) []string {
	return slices.Insert(argv, at, options...)
}

// placeSrun lets Slurm choose among the nodes that are up. If a node failed and its job
// step ended before Slurm declared the node down, the step keeps its processors. A later
// step would wait for them for ever, unless steps may overlap.
func placeSrun(argv []string, p Placement) (Launch, error) {
	l := Launch{Argv: argv, Env: []string{"SLURM_OVERLAP=1", "SLURM_KILL_BAD_EXIT=1"}}
	if len(p.Down) > 0 {
		l.Argv = insert(argv, 1, "--exclude="+strings.Join(p.Down, ","))
		// Without -N, srun reads the number of nodes from these variables, and would
		// wait for nodes that are down.
		n := strconv.Itoa(p.Needed)
		l.Env = append(l.Env, "SLURM_NNODES="+n, "SLURM_JOB_NUM_NODES="+n)
		for _, name := range []string{"SLURM_NTASKS", "SLURM_NPROCS"} {
			if tasks, err := strconv.Atoi(os.Getenv(name)); err == nil && p.Usual > p.Needed {
				l.Env = append(l.Env, name+"="+strconv.Itoa(share(tasks, p.Needed, p.Usual)))
			}
		}
	}
	return l, nil
}

// placeOpenMPI lists the nodes in a file. Under a resource manager, mpirun uses the nodes
// of the allocation that the file lists.
func placeOpenMPI(argv []string, p Placement) (Launch, error) {
	l := Launch{Argv: insertEach(argv, func(int) []string { return vars(p) }), Env: []string{"SLURM_OVERLAP=1"}}
	if len(p.Down) == 0 && !p.Listed {
		return l, nil
	}
	path, err := hostFile(p, func(node string, slots int) string { return fmt.Sprintf("%s slots=%d", node, slots) })
	l.Argv = insert(l.Argv, 1, "--hostfile", path)
	return l, err
}

// placeHydra writes the command line of MPICH's mpiexec, which other MPIs have adopted.
func placeHydra(argv []string, p Placement) (Launch, error) {
	l := Launch{Argv: argv, Env: []string{"SLURM_OVERLAP=1"}}
	if len(p.Down) == 0 && !p.Listed {
		return l, nil
	}
	path, err := hostFile(p, func(node string, slots int) string { return fmt.Sprintf("%s:%d", node, slots) })
	l.Argv = insert(argv, 1, "-f", path)
	return l, err
}

// hostFile writes a file with the nodes to use. It omits spare nodes, which the launcher
// would use as well.
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
	return path, hash.ReplaceFile(path, []byte(text.String()), 0o644) // others must not write to it
}

// placeFlux inserts options after the word run of `flux run`.
func placeFlux(argv []string, p Placement) (Launch, error) {
	if len(argv) < 2 || argv[1] != "run" && argv[1] != "mini" {
		return Launch{}, fmt.Errorf("the launcher flux must be followed by run: flux run OPTIONS PROGRAM")
	}
	at := 2
	if argv[1] == "mini" {
		at = 3 // flux mini run, in releases up to 0.48
	}
	if len(p.Down) > 0 && len(argv) >= at {
		argv = insert(argv, at, "--requires=not host:"+strings.Join(p.Down, ","))
	}
	return Launch{Argv: argv}, nil
}

// placeJsrun writes the command line of jsrun, and of lrun, which runs jsrun.
func placeJsrun(argv []string, p Placement) (Launch, error) {
	if len(p.Down) > 0 {
		argv = insert(argv, 1, "--exclude_hosts="+strings.Join(p.Down, ","))
	}
	return Launch{Argv: argv}, nil
}

// placeAprun lists the numbers of all nodes that can be used: aprun has no option to
// exclude nodes.
func placeAprun(argv []string, p Placement) (Launch, error) {
	if len(p.Down) == 0 {
		return Launch{Argv: argv}, nil
	}
	var numbers []string
	for _, n := range p.Nodes {
		number, err := strconv.ParseUint(strings.TrimPrefix(n, "nid"), 10, 31)
		if err != nil {
			return Launch{}, fmt.Errorf("aprun: %s is not the name of an ALPS node, which is nid and a number", n)
		}
		numbers = append(numbers, strconv.FormatUint(number, 10))
	}
	list := strings.Trim(hostlist.Compress(numbers), "[]")
	return Launch{Argv: insert(argv, 1, "-L", list)}, nil
}
