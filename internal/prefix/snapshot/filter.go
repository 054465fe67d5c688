package snapshot

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goscr/goscr/internal/config"
)

// Withheld stands in place of a word of a command line that may be a secret.
const Withheld = "<withheld>"

// kept are the variables that are recorded, as patterns of path.Match: those by which
// users choose how a program, its libraries and MPI behave. SCR_RECORD_ENV adds more.
var kept = []string{"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "LANG", "LC_*", "TZ", "SCR_*", "OMP_*", "GOMP_*", "KMP_*", "MKL_*",
	"OPENBLAS_*", "OMPI_MCA_*", "UCX_*", "FI_*", "PSM2_*", "I_MPI_*", "MPICH_*", "MV2_*", "CUDA_*", "ROCR_*", "HIP_*", "NCCL_*", "GODEBUG", "GOMAXPROCS"}

// dropped are variables that are others in another run: what launchers tell each rank, and
// what is said about the allocation.
var dropped = []string{"OMPI_MCA_orte_*", "OMPI_MCA_ess*", "OMPI_MCA_pmix*", "OMPI_MCA_prte_*", "OMPI_MCA_initial_wdir", "OMPI_MCA_plm*",
	"OMPI_MCA_rmaps_*", "OMPI_MCA_shmem_*", "OMPI_MCA_mpi_oversubscribe", "OMPI_MCA_mpi_yield*", "OMPI_MCA_oob*", "OMPI_MCA_hwloc_*", "SCR_PREFIX", "SCR_CURRENT",
	"SCR_END_TIME", "SCR_NODELIST", "SCR_EXCLUDE_NODES", "SCR_NODE_NAME"}

// secretWord is what is in the names of variables and options that are likely to have
// secrets as values.
var secretWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(pass(word|wd|phrase)?([-_]|$)|secret|token|credential|cookie|private|(^|[-_])(pass|pw|auth|api|access)?[-_]?key([-_]|$)|auth([-_]|$))`)
})

// secretValue is a value with a password in it: scheme://user:password@host.
var secretValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^/@\s:]*:[^/@\s]+@`) })

// hasPassword finds most values harmless before the expression is compiled, which every rank would do.
func hasPassword(value string) bool {
	return strings.Contains(value, "://") && secretValue().MatchString(value)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

func cut(variable string) (name, value string) {
	name, value, _ = strings.Cut(variable, "=")
	return name, value
}

// keepVariable reports whether a variable, NAME=value, is recorded. more are patterns of
// names besides kept. Secrets never are.
func keepVariable(variable string, more []string) bool {
	name, value := cut(variable)
	wanted := name != "" && (matches(more, name) || matches(kept, name) && !matches(dropped, name))
	if !wanted || secretWord().MatchString(name) || hasPassword(value) {
		return false
	}
	for _, p := range config.Parameters {
		if p.Name == name && p.Secret {
			return false
		}
	}
	return true
}

// keepEnviron returns the variables that are recorded, sorted by name.
func keepEnviron(environ, more []string) (list []string) {
	byName := map[string]string{}
	for _, v := range environ {
		if name, _ := cut(v); keepVariable(v, more) {
			byName[name] = v
		}
	}
	for _, v := range byName {
		list = append(list, v)
	}
	slices.Sort(list)
	return list
}

// keepWords returns a command line in which words that may be secrets are Withheld: the
// value of an option or a variable with such a name, and values with a password in them.
func keepWords(argv []string) []string {
	list := slices.Clone(argv)
	for i, word := range list {
		name, _, assigned := strings.Cut(word, "=")
		switch {
		case i > 0 && strings.HasPrefix(argv[i-1], "-") && !strings.Contains(argv[i-1], "=") && secretWord().MatchString(argv[i-1]) && !strings.HasPrefix(word, "-"):
			list[i] = Withheld
		case assigned && secretWord().MatchString(name):
			list[i] = name + "=" + Withheld
		case hasPassword(word):
			list[i] = Withheld
		}
	}
	return list
}

// keepText returns a command for a shell as it is recorded: if any word of it may be a secret, its
// words, without those, which no shell can run.
func keepText(command string) string {
	words := strings.Fields(command)
	if kept := keepWords(words); !slices.Equal(kept, words) {
		return strings.Join(kept, " ")
	}
	return command
}
