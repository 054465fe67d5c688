package system

import (
	"fmt"
	"strconv"
)

// launchers are the variables in which launchers tell a process how many they have started and which of them it is.
var launchers = []struct{ size, rank string }{
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, // mpirun of Open MPI
	{"PMI_SIZE", "PMI_RANK"},                         // mpiexec of MPICH and its like, srun --mpi=pmi2, flux run
	{"", "PMIX_RANK"},                                // any that has PMIx
	{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},         // srun
}

// ApartError says that a launcher has started several processes, and each is alone in its MPI.
type ApartError struct {
	First bool // whether this is the first process, as far as that is known
	text  string
}

func (e *ApartError) Error() string { return e.text }

// apart returns an *ApartError if the variables of launchers prove that this process, which is alone in its
// MPI, library, was started together with others. If one of them says that it was started alone, another
// launcher may have started that one.
func apart(getenv func(string) string, library string) error {
	var found *ApartError
	for _, l := range launchers {
		size, ok := number(getenv(l.size))
		srun := l.size == "SLURM_STEP_NUM_TASKS"
		switch {
		case !ok || srun && !isStep(getenv):
		case size == 1 && !srun: // srun also starts the processes that start others
			return nil
		case size > 1 && found == nil:
			rank, ranked := number(getenv(l.rank))
			found = &ApartError{!ranked || rank == 0, fmt.Sprintf("the launcher has started %d processes (%s), but in this one MPI_COMM_WORLD has a single rank: "+
				"each would be a job of its own, with the same checkpoints. Start the program with the mpirun, mpiexec or srun --mpi that fits the MPI it is "+
				"built with, %s. If these are jobs of their own, each with another SCR_PREFIX, start them with env -u %s", size, l.size, library, l.size)}
		}
	}
	if found == nil {
		return nil
	}
	return found
}

// number returns a number from 0 on.
func number(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return max(n, 0), err == nil && n >= 0
}

// isStep reports whether srun has started the process. The steps of batch scripts and of shells in an allocation have
// numbers above all others.
func isStep(getenv func(string) string) bool {
	n, err := strconv.ParseUint(getenv("SLURM_STEP_ID"), 10, 32)
	return err == nil && n < 0xfffffff0
}

// Launched returns the rank that the launcher has given to this process, 0 if that is not known.
func Launched(getenv func(string) string) int {
	for _, l := range launchers {
		if n, ok := number(getenv(l.rank)); ok {
			return n
		}
	}
	return 0
}
