package system

import "strconv"

// launchers are the variables in which launchers tell a process how many they have started and which of them it is.
var launchers = []struct{ size, rank string }{
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, // mpirun of Open MPI
	{"PMI_SIZE", "PMI_RANK"},                         // mpiexec of MPICH and its like, srun --mpi=pmi2, flux run
	{"", "PMIX_RANK"},                                // any that has PMIx
	{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},         // srun
}

// number returns a number from 0 on.
func number(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return max(n, 0), err == nil && n >= 0
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
