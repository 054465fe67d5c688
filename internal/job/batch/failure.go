package batch

import (
	"regexp"
	"strings"
	"sync"
)

// What launchers write about the process that failed first; they end the others because
// of it.
var (
	// mpirun.openmpi noticed that process rank 1 with PID 0 on node n1 exited on signal 9 (Killed).
	openMPIFailure = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`noticed that process rank \d+ with PID \d+ on node (\S+) exited on signal`)
	})
	// srun: error: n1: tasks 2-3: Killed
	// srun: error: n1: task 2: Exited with exit code 1
	srunFailure = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^srun: error: (\S+): tasks? [\d,-]+: (\S.*)`) })
	srunExit    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Exited with exit code`) })
)

// Ending reports whether a launcher says by a line on stderr that it has begun to end a run, because a process has failed.
// Open MPI's mpirun then gives the other processes a second before it ends them; what srun writes about a process
// it writes at once.
func Ending(line string) bool {
	if strings.HasSuffix(line, "Per user-direction, the job has been aborted.") {
		return true
	}
	_, failed := Failure(line)
	return failed
}

// Failure reads a line that a launcher has written on stderr. ok reports whether the line
// says that a process of the program has failed. node is the node of the process if a
// signal has ended it, and "" if it has ended itself. It knows the lines of srun and of
// Open MPI's mpirun; MPICH's mpiexec writes such lines to stdout.
func Failure(line string) (node string, ok bool) {
	if m := openMPIFailure().FindStringSubmatch(line); m != nil {
		return m[1], true
	}
	m := srunFailure().FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	if srunExit().MatchString(m[2]) {
		return "", true
	}
	return m[1], true
}

// What launchers write on stderr when they do not understand an option. The lines of other errors are not here, such as those of a
// node that does not answer: the next run may have no such error. Those of Open MPI 5 are not known.
var (
	// mpirun: Error: unknown option "--bogus"
	// mpirun: Error: option "-np" did not have enough parameters (1)
	openMPIRejects = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(\S*/)?(mpirun|mpiexec|orterun|prterun)[^\s/]*: Error: (unknown option "|option ".*" did not have enough parameters)`)
	})
	// [mpiexec@n1] match_arg (utils/args/args.c:163): unrecognized argument bogus
	// [mpiexec@n1] np_fn (ui/mpich/utils.c:788): missing command line argument, add -h for help
	hydraRejects = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\[mpiexec@\S+\] \S+ \(\S+\): (unrecognized argument|missing command line argument)`)
	})
	// srun: unrecognized option '--bogus'
	srunRejects = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^srun: (unrecognized option '|invalid option -- '|option .*requires an argument)`)
	})
)

// Rejects reports whether the launcher says by a line on stderr that it does not understand its options. Then it has started
// nothing, and would do the same again.
func (l Launcher) Rejects(line string) bool { return l.rejects != nil && l.rejects().MatchString(line) }
