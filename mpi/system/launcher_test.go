package system

import (
	"errors"
	"strings"
	"testing"
)

func variables(text string) func(string) string {
	set := map[string]string{}
	for _, pair := range strings.Fields(text) {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	return func(name string) string { return set[name] }
}

func TestApart(t *testing.T) {
	for set, want := range map[string]string{ // "": no error
		"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0": "4 processes (OMPI_COMM_WORLD_SIZE)",
		"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 PMIX_RANK=3": "4 processes (OMPI_COMM_WORLD_SIZE)",
		"PMI_SIZE=2 PMI_RANK=1": "2 processes (PMI_SIZE)",
		"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=2 SLURM_NTASKS=8": "8 processes (SLURM_STEP_NUM_TASKS)",
		"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 PMI_SIZE=4 PMI_RANK=0":         "4 processes (PMI_SIZE)", // Hydra, which srun has started on one node
		"": "",
		"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0": "",
		"PMIX_RANK=1": "", // of how many is not known
		"PMI_SIZE=x":  "",
		// Batch scripts and shells of an allocation, which start one process, or mpirun -n 1.
		"SLURM_NTASKS=8 SLURM_PROCID=0": "",
		"SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_STEP_ID=4294967291 SLURM_STEP_NUM_TASKS=8":                       "",
		"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0": "", // the second node of mpirun -n 1
		// A rank of one MPI starts a job of one process of the other.
		"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 PMIX_RANK=2 PMI_SIZE=1 PMI_RANK=0": "",
		"PMI_SIZE=4 PMI_RANK=2 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0":             "",
	} {
		err := apart(variables(set), "MPICH 4")
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", set, err)
			}
			continue
		}
		var e *ApartError
		if !errors.As(err, &e) || !strings.Contains(e.Error(), "has started "+want) || !strings.Contains(e.Error(), "built with, MPICH 4") {
			t.Errorf("%s: %v", set, err)
			continue
		}
		if rank := Launched(variables(set)); e.First != (rank == 0) {
			t.Errorf("%s: rank %d, first %v", set, rank, e.First)
		}
	}
}

func TestLaunched(t *testing.T) {
	for set, want := range map[string]int{"": 0, "OMPI_COMM_WORLD_RANK=3": 3, "PMI_RANK=2": 2, "PMIX_RANK=5": 5, "SLURM_PROCID=7": 7, "PMI_RANK=-1": 0} {
		if got := Launched(variables(set)); got != want {
			t.Errorf("%s: %d", set, got)
		}
	}
}
