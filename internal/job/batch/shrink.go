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
var withValue = []string{"-x", "-c", "-n", "-np", "--np", "-N", "-m", "--distribution", "--rankfile", "-rf", "-r", "--map-by", "-map-by", "--rank-by", "--bind-to", "-bind-to", "--hostfile", "-hostfile", "-f",
	"--host", "-host", "-H", "-launcher", "--mpi", "-p", "--partition", "-t", "--time", "-w", "--nodelist", "--exclude", "-D", "--chdir", "-o", "--output", "-e", "--error"}

// shrink changes the numbers of processes and nodes in a command line that was written for
// usual nodes, so that it fits on left nodes.
func shrink(argv []string, left, usual int) []string {
	options := counts
	if takesNodes(argv) {
		options = slices.Concat(counts, nodeCounts)
	}
	return replaceCounts(argv, options, func(n int) int { return share(n, left, usual) })
}

// takesNodes reports whether -N is the number of nodes in a command line.
func takesNodes(argv []string) bool {
	name := filepath.Base(argv[0])
	return name == "srun" || name == "flux"
}

// replaceCounts replaces the numbers that follow options. It looks at the launcher's
// options only, which end at the first word that is neither an option nor a value of one.
func replaceCounts(argv []string, options []string, by func(n int) int) []string {
	replaced := func(text string) string {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return strconv.Itoa(by(n))
		}
		return text
	}
	for at := firstOption(argv); at < len(argv) && isOption(argv[at]); at++ {
		word := argv[at]
		name, value, joined := strings.Cut(word, "=")
		switch {
		case joined && slices.Contains(options, name):
			argv[at] = name + "=" + replaced(value)
		case slices.Contains(options, word) && at+1 < len(argv):
			at++
			argv[at] = replaced(argv[at])
		case len(word) > 2 && slices.Contains(options, word[:2]): // -n8
			argv[at] = word[:2] + replaced(word[2:])
		default:
			at += valuesAfter(word)
		}
	}
	return argv
}

// firstOption returns the index of the first word after the name of a launcher: flux has
// two or three words.
func firstOption(argv []string) int {
	if len(argv) > 1 {
		return 1 + map[string]int{"run": 1, "mini": 2}[argv[1]]
	}
	return 1
}

func isOption(word string) bool { return strings.HasPrefix(word, "-") && word != "--" }

// valuesAfter returns how many words after an option are its values.
func valuesAfter(word string) int {
	switch {
	case word == "--mca" || word == "-mca" || word == "--pmca" || word == "--prtemca":
		return 2
	case slices.Contains(withValue, word):
		return 1
	}
	return 0
}

// given returns those of options that a command line has.
func given(argv []string, options ...string) (list []string) {
	for at := firstOption(argv); at < len(argv) && isOption(argv[at]); at++ {
		name, _, _ := strings.Cut(argv[at], "=")
		if slices.Contains(options, name) {
			list = append(list, name)
		}
		at += valuesAfter(argv[at])
	}
	return list
}

// share returns how many of n processes or nodes are left if left of usual nodes are.
func share(n, left, usual int) int { return max(1, n*left/usual) }
