package batch

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// counts are the options with the number of processes.
var counts = []string{"-n", "-np", "--np", "--ntasks", "--nrs"}

// nodeCounts are the options of srun and flux with the number of nodes. For mpirun and
// aprun, -N is a number of processes on each node.
var nodeCounts = []string{"-N", "--nodes"}

// withValue are other options whose value is the next word. The list is not complete; at
// an option that is missing shrink stops too early, which leaves the command line as the
// user wrote it.
var withValue = []string{"-x", "-c", "-N", "-r", "--map-by", "-map-by", "--rank-by", "--bind-to", "-bind-to", "--hostfile", "-hostfile", "-f",
	"--host", "-host", "-H", "-launcher", "--mpi", "-p", "--partition", "-t", "--time", "-w", "--nodelist", "--exclude", "-D", "--chdir", "-o", "--output", "-e", "--error"}

// shrink changes the numbers of processes and nodes in a command line that was written for
// usual nodes, so that it fits on left nodes. It looks at the launcher's options only,
// which end at the first word that is neither an option nor a value of one.
func shrink(argv []string, left, usual int) []string {
	options := counts
	if name := filepath.Base(argv[0]); name == "srun" || name == "flux" {
		options = slices.Concat(counts, nodeCounts)
	}
	scaled := func(text string) (string, bool) {
		n, err := strconv.Atoi(text)
		return strconv.Itoa(share(n, left, usual)), err == nil && n > 0
	}
	at := 1
	if at < len(argv) && (argv[at] == "run" || argv[at] == "mini") { // flux run, flux mini run
		at += map[string]int{"run": 1, "mini": 2}[argv[at]]
	}
	for ; at < len(argv) && strings.HasPrefix(argv[at], "-") && argv[at] != "--"; at++ {
		word := argv[at]
		name, value, joined := strings.Cut(word, "=")
		switch {
		case joined && slices.Contains(options, name):
			if n, ok := scaled(value); ok {
				argv[at] = name + "=" + n
			}
		case slices.Contains(options, word) && at+1 < len(argv):
			at++
			if n, ok := scaled(argv[at]); ok {
				argv[at] = n
			}
		case word == "--mca" || word == "-mca" || word == "--pmca" || word == "--prtemca":
			at += 2
		case slices.Contains(withValue, word):
			at++
		case len(word) > 2 && slices.Contains(options, word[:2]): // -n8
			if n, ok := scaled(word[2:]); ok {
				argv[at] = word[:2] + n
			}
		}
	}
	return argv
}

// share returns how many of n processes or nodes are left if left of usual nodes are.
func share(n, left, usual int) int { return max(1, n*left/usual) }
