package system

import (
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

func TestLaunched(t *testing.T) {
	for set, want := range map[string]int{"": 0, "OMPI_COMM_WORLD_RANK=3": 3, "PMI_RANK=2": 2, "PMIX_RANK=5": 5, "SLURM_PROCID=7": 7, "PMI_RANK=-1": 0} {
		if got := Launched(variables(set)); got != want {
			t.Errorf("%s: %d", set, got)
		}
	}
}
