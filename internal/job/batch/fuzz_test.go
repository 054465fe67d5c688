package batch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Whatever a manager's commands print, and whatever is in its variables and files: nodes have
// names and stand there once, those that are down are among them, and no time is negative.
func FuzzManagers(f *testing.F) {
	dir := f.TempDir()
	said := filepath.Join(dir, "said")
	for _, name := range []string{"squeue", "sinfo", "flux", "bjobs", "bhosts", "qstat", "pbsnodes", "aprun", "apstat"} {
		must(f, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexec /bin/cat "+said+"\n"), 0o700))
	}
	f.Setenv("PATH", dir)
	for _, seed := range []string{
		"node[1-4]|59:00\n", "node1|UP|none\nnode2|DOWN*|broken", "node1 node2", "Resource_List.walltime = 01:00:00\nstime = Sat Nov 21 14:30:00 2026\n",
		"Walltime.Remaining = 3600", "node3 down", "1\n2\n3", "  1 XT UP\n 2 XT DOWN", "node1 slots=4\nnode2:3\n# c\n", "{\"nodelist\": \"n[1-3]\"}", "1-00:00:00", "INFINITE", "n[1-99999999]|1-1:1:1",
		"2147483647-2147483647:2147483647:2147483647", "|1000000-00:00:00", "host 2 host 3",
	} {
		for i := range Managers {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		must(t, os.WriteFile(said, []byte(text), 0o600))
		name := Managers[int(which)%len(Managers)]
		vars := map[string]string{"SLURM_JOB_ID": "1", "FLUX_URI": "x", "LSB_JOBID": "1", "PBS_JOBID": "1", "PBS_NODEFILE": said, "PBS_NUM_NODES": "3", "LSB_DJOB_HOSTFILE": said}
		if which >= 128 { // the text is in a variable
			vars["SLURM_JOB_NODELIST"], vars["LSB_HOSTS"], vars["LSB_MCPU_HOSTS"], vars["SLURM_JOB_END_TIME"], vars["PBS_NUM_NODES"] = text, text, text, text, text
			delete(vars, "LSB_DJOB_HOSTFILE")
		}
		m, err := Find(Settings{Name: name, HostFile: said}, environ(vars))
		must(t, err)
		nodes, err := m.Nodes(t.Context())
		if err == nil {
			// In Slurm a job that has lost its last node has none.
			if len(nodes) == 0 && name != "SLURM" || slices.Contains(nodes, "") {
				t.Fatalf("%s: nodes %q", name, nodes)
			}
			sorted := slices.Sorted(slices.Values(nodes))
			if len(slices.Compact(sorted)) != len(nodes) {
				t.Fatalf("%s: a node twice: %q", name, nodes)
			}
		}
		if len(nodes) > 100 || len(nodes) == 0 {
			nodes = []string{"node1", "node2"}
		}
		down, _ := m.Down(t.Context(), nodes) // an error is as good as an answer
		for n := range down {
			if !slices.Contains(nodes, n) {
				t.Fatalf("%s: %q is down, of %q", name, n, nodes)
			}
		}
		_, _ = m.End(t.Context())
		if s, ok := m.(slurm); ok {
			_, _ = s.Steps(t.Context())
		}
		_, _, _ = Hosts(said)
		if d, err := slurmDuration(text); err == nil && d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
		if end, err := pbsEnd(text, time.Unix(0, 0)); err == nil && !end.IsZero() && end.Year() < 0 {
			t.Fatalf("%q ends %v", text, end)
		}
	})
}
