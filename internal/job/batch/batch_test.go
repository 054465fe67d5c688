package batch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commands sets PATH to a directory with only these programs, each of which prints its
// recorded output. called returns the command lines with which they were run.
func commands(t *testing.T, recorded map[string]string) (called func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	for name, text := range recorded {
		body := "cat <<'THE END'\n" + strings.TrimPrefix(text, "\n") + "\nTHE END\n"
		if script, ok := strings.CutPrefix(text, "#!"); ok {
			body = script + "\n"
		}
		script := fmt.Sprintf("#!/bin/sh\nPATH=/usr/bin:/bin\necho %s \"$@\" >>%s\n%s", name, log, body)
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	t.Setenv("PATH", dir)
	return func() []string {
		text, _ := os.ReadFile(log)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

func environ(vars map[string]string) Environ {
	return func(name string) (string, bool) { text, ok := vars[name]; return text, ok }
}

func file(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "hosts")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// allocation is a job as a manager shows it: it has node1 to node4, of which node3 is down,
// and an hour left.
type allocation struct {
	name     string
	vars     map[string]string
	hostFile string
	recorded map[string]string
	prefix   string // of the names of nodes
	reason   string // what is said of the lost node; "" if nothing is
	noEnd    bool
	jobID    string
	step     string
	kill     string // the command line that ends it
}

func allocations(t *testing.T) []allocation {
	nodeFile := file(t, "node1\nnode1\nnode2\nnode2\nnode3\nnode3\nnode4\nnode4\n")
	began := time.Now().Add(-time.Hour).Format(time.ANSIC)
	return []allocation{
		{
			name: "Slurm", jobID: "4711", step: "2", kill: "scancel --signal=KILL 4711.2",
			vars: map[string]string{"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "node[1-4]"},
			recorded: map[string]string{
				"squeue":  "node[1-2,4]|1:00:00",
				"sinfo":   "node1|allocated|none\nnode2|draining|bad fan\nnode3|down*|Not responding\nnode4|mixed|none",
				"scancel": "",
			},
			reason: "Slurm says down* (Not responding)",
		},
		{
			name: "Flux", jobID: "f2QJ8sYdN1Q", step: "f123", kill: "flux job kill --signal=SIGKILL f123",
			vars: map[string]string{"FLUX_URI": "local:///tmp/flux", "SLURM_JOB_ID": "1"},
			recorded: map[string]string{"flux": `#!case "$*" in
				"getattr jobid") echo f2QJ8sYdN1Q ;;
				"getattr hostlist") echo 'node[1-4]' ;;
				"resource list"*down*) echo node3 ;;
				"job timeleft") echo 3600 ;;
				"job kill"*) ;;
				*) exit 1 ;;
				esac`},
			reason: "Flux says down",
		},
		{
			name: "LSF", jobID: "1234", step: "7", kill: "jskill -s 9 7",
			vars: map[string]string{"LSB_JOBID": "1234", "LSB_MCPU_HOSTS": "batch5 1 node1 42 node2 42 node3 42 node4 42"},
			recorded: map[string]string{
				"bjobs": "1:0 L",
				"bhosts": `
HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV
node1              closed_Full        -     42     42     42      0      0      0
node2              ok                 -     42     42     42      0      0      0
node3.site.org     unavail            -     42     42     42      0      0      0
node4              closed_Adm         -     42     42     42      0      0      0`,
				"jskill": "",
			},
			reason: "LSF says unavail",
		},
		{
			name: "PBS", jobID: "55.server",
			vars: map[string]string{"PBS_JOBID": "55.server", "PBS_NODEFILE": nodeFile},
			recorded: map[string]string{
				"qstat": `
Job Id: 55.server
    Job_Name = heat
    job_state = R
    Resource_List.nodect = 4
    Resource_List.walltime = 02:00:00
    stime = ` + began + `
    Variable_List = PBS_O_HOME=/home/user,
	PBS_O_SHELL=/bin/bash`,
				"pbsnodes": "node3.site.org       down,job-exclusive\nnode4                offline disk is to be changed\nnode9                down\n",
			},
			reason: "PBS says down,job-exclusive",
		},
		{
			name: "PBS", jobID: "55.server", // Torque
			vars: map[string]string{"PBS_JOBID": "55.server", "PBS_NODEFILE": nodeFile},
			recorded: map[string]string{
				"qstat":    "Job Id: 55.server\n    Resource_List.walltime = 02:00:00\n    Walltime.Remaining = 3600\n    start_time = nonsense",
				"pbsnodes": "node3                down,offline",
			},
			reason: "PBS says down,offline",
		},
		{
			name: "ALPS", prefix: "nid0000", jobID: "9.sdb", step: "77", kill: "apkill -9 77",
			vars: map[string]string{"PBS_JOBID": "9.sdb", "BASIL_RESERVATION_ID": "3", "PBS_NUM_NODES": "4"},
			recorded: map[string]string{
				"aprun": "4\n1\n3\n2",
				"apstat": `
  NID Arch State CU Rv Pl  PgSz     Avl    Conf  Placed PEs Apids
    1   XT UP  B 12 12 12    4K 3072000 3072000 3072000  12 201
    2   XT UP  B 12 12 12    4K 3072000 3072000 3072000  12 201
    3   XT DN  B 12 12 12    4K 3072000       0       0   0
    4   XT UP  B 12 12 12    4K 3072000 3072000 3072000  12 201
Compute node summary
   arch config     up   resv    use  avail   down
     XT      4      3      3      3      0      1`,
				"qstat":  "    Resource_List.walltime = 02:00:00\n    stime = " + began,
				"apkill": "",
			},
			reason: "ALPS says DN",
		},
		{
			name: "no resource manager", hostFile: file(t, "# mine\nnode1 slots=2\nnode2:2\n\nnode[3-4]  # a rack\n"), noEnd: true,
		},
	}
}

// Every manager finds the id, the nodes, the node that is down and the end, and can end a
// program.
func TestManagers(t *testing.T) {
	ctx := t.Context()
	for _, a := range allocations(t) {
		t.Run(a.name, func(t *testing.T) {
			called := commands(t, a.recorded)
			m, err := Find(Settings{Name: "AUTO", HostFile: a.hostFile}, environ(a.vars))
			must(t, err)
			if m.Name() != a.name {
				t.Fatalf("found %s", m.Name())
			}
			if id, err := m.JobID(ctx); err != nil || id != a.jobID {
				t.Errorf("job id %q, %v", id, err)
			}
			p := a.prefix
			if p == "" {
				p = "node"
			}
			nodes, err := m.Nodes(ctx)
			want := []string{p + "1", p + "2", p + "3", p + "4"}
			if err != nil || !slices.Equal(nodes, want) {
				t.Errorf("nodes %q, %v", nodes, err)
			}
			down, err := m.Down(ctx, want)
			expect := map[string]string{p + "3": a.reason}
			if a.reason == "" {
				expect = nil
			}
			if err != nil || !maps.Equal(down, expect) {
				t.Errorf("down %q, %v", down, err)
			}
			end, err := m.End(ctx)
			if left := time.Until(end); err != nil || end.IsZero() != a.noEnd || !a.noEnd && (left < 59*time.Minute || left > 61*time.Minute) {
				t.Errorf("end %v, %v", end, err)
			}
			if a.kill != "" {
				must(t, m.Kill(ctx, a.step))
				if lines := called(); lines[len(lines)-1] != a.kill {
					t.Errorf("killed by %q", lines)
				}
			}
		})
	}
}

// When a command of the manager fails, the error names the command, and no nodes or times
// are returned.
func TestManagers_CommandsFail(t *testing.T) {
	for _, a := range allocations(t) {
		for what, body := range map[string]string{"missing": "", "failing": "#!echo it is broken >&2; exit 3", "talking nonsense": "][ 99:99:99:99:99"} {
			if a.recorded == nil {
				continue
			}
			t.Run(a.name+" "+what, func(t *testing.T) {
				broken := map[string]string{}
				for name := range a.recorded {
					if body != "" {
						broken[name] = body
					}
				}
				commands(t, broken)
				m, err := Find(Settings{Name: "AUTO"}, environ(a.vars))
				must(t, err)
				_, downErr := m.Down(t.Context(), []string{"node1"})
				end, endErr := m.End(t.Context())
				if what == "talking nonsense" {
					if endErr == nil && !end.IsZero() {
						t.Errorf("ends at %v", end)
					}
					return
				}
				for _, err := range []error{downErr, endErr} {
					named := err != nil && slices.ContainsFunc(slices.Collect(maps.Keys(a.recorded)), func(name string) bool { return strings.Contains(err.Error(), name) })
					if !named || body != "" && !strings.Contains(err.Error(), "it is broken") {
						t.Errorf("error: %v", err)
					}
				}
			})
		}
	}
}

func TestManagers_CommandHangs(t *testing.T) {
	commands(t, map[string]string{"squeue": "#!sleep 1000"})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	m, err := Find(Settings{Name: "SLURM"}, environ(nil))
	must(t, err)
	if _, err := m.End(ctx); err == nil {
		t.Error("no error")
	}
}

func TestFind_ByName(t *testing.T) {
	for _, name := range Managers {
		if _, err := Find(Settings{Name: name}, environ(nil)); err != nil {
			t.Error(err)
		}
	}
	if _, err := Find(Settings{Name: "LOADLEVELER"}, environ(nil)); err == nil || !strings.Contains(err.Error(), "SLURM") {
		t.Error(err)
	}
}

func TestNoManager_ThisMachineAlone(t *testing.T) {
	m, err := Find(Settings{Name: "AUTO"}, environ(nil))
	must(t, err)
	name, err := os.Hostname()
	must(t, err)
	if nodes, err := m.Nodes(t.Context()); err != nil || !slices.Equal(nodes, []string{name}) {
		t.Error(nodes, err)
	}
	for _, id := range []string{"", "x", "0", "-1", "1"} {
		if m.Kill(t.Context(), id) == nil {
			t.Errorf("process %q was killed", id)
		}
	}
}

func TestSlurm_NoLimit(t *testing.T) {
	for _, left := range []string{"UNLIMITED", "NOT_SET", "INVALID"} {
		commands(t, map[string]string{"squeue": "node1|" + left})
		if end, err := (slurm{environ(nil)}).End(t.Context()); err != nil || !end.IsZero() {
			t.Error(left, end, err)
		}
	}
}

func TestSlurm_Steps(t *testing.T) {
	commands(t, map[string]string{"squeue": "4711.0\n4711.12\n4711.batch\n4711.extern\n4711.interactive"})
	steps, err := slurm{environ(map[string]string{"SLURM_JOB_ID": "4711"})}.Steps(t.Context())
	if err != nil || fmt.Sprint(steps) != "[4711.0 4711.12]" {
		t.Error(steps, err)
	}
}

func TestSlurm_NodeThatCameBackIsNotTheJobs(t *testing.T) {
	commands(t, map[string]string{"squeue": "node1|10:00", "sinfo": "node1|allocated|none\nnode2|idle|none"})
	down, err := slurm{environ(nil)}.Down(t.Context(), []string{"node1", "node2"})
	if err != nil || len(down) != 1 || down["node2"] == "" {
		t.Error(down, err)
	}
}

func TestSlurmDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Second, "2:30": 150 * time.Second, "1:00:00": time.Hour, "2-03:00:01": 51*time.Hour + time.Second,
	} {
		if d, err := slurmDuration(text); err != nil || d != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1:2:3:4", "1-", "99999999999", "2147483647-0"} {
		if d, err := slurmDuration(text); err == nil {
			t.Errorf("%q: %v", text, d)
		}
	}
}

func TestSlurmLost(t *testing.T) {
	for state, lost := range map[string]bool{
		"idle": false, "allocated": false, "mixed": false, "draining": false, "drained": false, "completing": false, "allocated#": false,
		"down": true, "down*": true, "idle*": true, "allocated*": true, "failing": true, "fail": true, "powered_down": true, "unknown": true,
	} {
		if slurmLost(state) != lost {
			t.Error(state)
		}
	}
}

func TestLSF_WhereTheNodesAre(t *testing.T) {
	for _, vars := range []map[string]string{
		{"LSB_HOSTS": "b n1 n1 n2 n2"},
		{"LSB_DJOB_HOSTFILE": file(t, "b\nn1\nn1\nn2\nn2\n")},
		{"LSB_MCPU_HOSTS": "n1 1 n2 1"},
		{"LSB_MCPU_HOSTS": "n1 8 n2 1"},
	} {
		if nodes, err := (lsf{environ(vars)}).Nodes(t.Context()); err != nil || fmt.Sprint(nodes) != "[n1 n2]" {
			t.Error(vars, nodes, err)
		}
	}
	for _, vars := range []map[string]string{{}, {"LSB_MCPU_HOSTS": "n1 x"}, {"LSB_DJOB_HOSTFILE": "/nonexistent"}} {
		if nodes, err := (lsf{environ(vars)}).Nodes(t.Context()); err == nil {
			t.Error(vars, nodes)
		}
	}
}

func TestHosts_BadFiles(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "node1 slots=x\n", "node1:0\n", "node[\n", "a;b\n"} {
		if nodes, _, err := Hosts(file(t, text)); err == nil {
			t.Errorf("%q: %q", text, nodes)
		}
	}
	nodes, slots, err := Hosts(file(t, "a slots=3\nb:2\nc\nd\nd\n"))
	if err != nil || fmt.Sprint(nodes, slots) != "[a b c d] map[a:3 b:2 c:0 d:2]" {
		t.Error(nodes, slots, err)
	}
}

func TestLaunchers(t *testing.T) {
	for _, name := range []string{"SLURM_OVERLAP", "SLURM_KILL_BAD_EXIT"} {
		t.Setenv(name, "") // to have it restored
		os.Unsetenv(name)
	}
	commands(t, map[string]string{
		"mpirun":  "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/",
		"mpiexec": "HYDRA build details:\n    Version:                                 4.0.2",
	})
	all := []string{"n1", "n2", "n3", "n4"}
	whole := Placement{Nodes: all, Needed: 3}
	lost := Placement{Nodes: []string{"n1", "n3", "n4"}, Down: []string{"n2"}, Needed: 2}
	fewer := lost
	fewer.Usual = 4
	assigned := Placement{Nodes: all, Needed: 3, Hosts: []string{"n1", "n4", "n4", "n1"}}
	inGroups := Placement{Nodes: all, Needed: 3, Hosts: []string{"n3", "n3", "n1", "n1"}}
	nids := Placement{Nodes: []string{"nid00001", "nid00002", "nid00009"}, Down: []string{"nid00003"}, Needed: 2}
	slots := map[string]int{"n1": 2, "n3": 4}
	listed := Placement{Nodes: []string{"n1", "n3", "n4"}, Needed: 2, Slots: slots, Listed: true}
	for _, c := range []struct {
		name, argv string
		p          Placement
		want, env  string
		hosts      string
	}{
		{"srun", "srun -n8 -N4 ./app", whole, "srun -n8 -N4 ./app", "SLURM_OVERLAP=1 SLURM_KILL_BAD_EXIT=1", ""},
		{"srun, lost", "/usr/bin/srun -n8 ./app", lost, "/usr/bin/srun --exclude=n2 -n8 ./app",
			"SLURM_OVERLAP=1 SLURM_KILL_BAD_EXIT=1 SLURM_NNODES=2 SLURM_JOB_NUM_NODES=2", ""},
		{"Open MPI", "mpirun -n 8 ./app", whole, "mpirun -n 8 ./app", "SLURM_OVERLAP=1", ""},
		{"Open MPI, lost", "mpirun -n 8 ./app", lost, "mpirun --hostfile DIR/hosts -n 8 ./app", "SLURM_OVERLAP=1", "n1\nn3\n"},
		{"Open MPI, listed", "mpirun ./app", listed, "mpirun --hostfile DIR/hosts ./app", "SLURM_OVERLAP=1", "n1 slots=2\nn3 slots=4\n"},
		{"Open MPI, variables", "mpirun ./app", Placement{Nodes: all, Needed: 4, Vars: []string{"SCR_A", "SCR_B"}}, "mpirun -x SCR_A -x SCR_B ./app", "SLURM_OVERLAP=1", ""},
		{"Open MPI, two programs", "mpirun -n 2 ./a : -n 1 ./b", Placement{Nodes: all, Needed: 4, Vars: []string{"SCR_A"}},
			"mpirun -x SCR_A -n 2 ./a : -x SCR_A -n 1 ./b", "SLURM_OVERLAP=1", ""},
		{"Open MPI, two programs, assigned", "mpirun -n 3 ./a : --n=1 ./b", assigned,
			"mpirun --map-by seq --hostfile DIR/hosts -n 3 ./a : --hostfile DIR/hosts.1 --n=1 ./b", "SLURM_OVERLAP=1", "n1\nn4\nn4\n"},
		{"MPICH, two programs, assigned", "mpiexec -n 2 ./a : -n 2 ./b", inGroups, "mpiexec -f DIR/hosts -n 2 ./a : -n 2 ./b", "SLURM_OVERLAP=1", "n3:2\nn1:2\n"},
		{"srun, fewer", "srun -n8 -N4 --mpi pmix ./app -n 8", fewer, "srun --exclude=n2 -n4 -N2 --mpi pmix ./app -n 8",
			"SLURM_OVERLAP=1 SLURM_KILL_BAD_EXIT=1 SLURM_NNODES=2 SLURM_JOB_NUM_NODES=2", ""},
		{"Open MPI, fewer", "mpirun --mca btl self -N 2 -np 7 ./app -np 7", fewer, "mpirun --hostfile DIR/hosts --mca btl self -N 2 -np 3 ./app -np 7",
			"SLURM_OVERLAP=1", "n1\nn3\n"},
		{"MPICH, fewer", "mpiexec -launcher ssh -n=1 ./app", fewer, "mpiexec -f DIR/hosts -launcher ssh -n=1 ./app", "SLURM_OVERLAP=1", "n1\nn3\n"},
		{"flux, fewer", "flux run -N4 --ntasks=8 ./app", fewer, "flux run --requires=not host:n2 -N2 --ntasks=4 ./app", "", ""},
		{"srun, assigned", "srun -n 4 -N3 ./app -N3", assigned, "srun --distribution=arbitrary -n 4 -N2 ./app -N3",
			"SLURM_OVERLAP=1 SLURM_KILL_BAD_EXIT=1 SLURM_NNODES=2 SLURM_JOB_NUM_NODES=2 SLURM_HOSTFILE=DIR/hosts", "n1\nn4\nn4\nn1\n"},
		{"Open MPI, assigned", "mpirun -n 4 ./app", assigned, "mpirun --map-by seq --hostfile DIR/hosts -n 4 ./app", "SLURM_OVERLAP=1", "n1\nn4\nn4\nn1\n"},
		{"MPICH, assigned", "mpiexec -n 4 ./app", inGroups, "mpiexec -f DIR/hosts -n 4 ./app", "SLURM_OVERLAP=1", "n3:2\nn1:2\n"},
		{"MPICH, lost", "mpiexec -n 8 ./app", lost, "mpiexec -f DIR/hosts -n 8 ./app", "SLURM_OVERLAP=1", "n1\nn3\n"},
		{"MPICH, listed", "mpiexec ./app", listed, "mpiexec -f DIR/hosts ./app", "SLURM_OVERLAP=1", "n1:2\nn3:4\n"},
		{"flux", "flux run -n8 ./app", whole, "flux run -n8 ./app", "", ""},
		{"flux, lost", "flux run -n8 ./app", lost, "flux run --requires=not host:n2 -n8 ./app", "", ""},
		{"flux mini, lost", "flux mini run -n8 ./app", lost, "flux mini run --requires=not host:n2 -n8 ./app", "", ""},
		{"jsrun, lost", "jsrun -r2 ./app", lost, "jsrun --exclude_hosts=n2 -r2 ./app", "", ""},
		{"lrun, lost", "lrun -n8 ./app", lost, "lrun --exclude_hosts=n2 -n8 ./app", "", ""},
		{"aprun, lost", "aprun -n8 ./app", nids, "aprun -L 1-2,9 -n8 ./app", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.Dir = t.TempDir()
			argv := strings.Fields(c.argv)
			l, err := FindLauncher(t.Context(), argv)
			must(t, err)
			launch, err := l.Command(argv, c.p)
			must(t, err)
			if got := strings.ReplaceAll(strings.Join(launch.Argv, " "), c.p.Dir, "DIR"); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if got := strings.ReplaceAll(strings.Join(launch.Env, " "), c.p.Dir, "DIR"); got != c.env {
				t.Errorf("environment %s", got)
			}
			text, _ := os.ReadFile(filepath.Join(c.p.Dir, "hosts"))
			if string(text) != c.hosts {
				t.Errorf("hosts: %q", text)
			}
			if strings.Join(argv, " ") != c.argv {
				t.Errorf("the caller's command line became %q", argv)
			}
		})
	}
}

func TestLaunchers_CannotAssignPrograms(t *testing.T) {
	commands(t, map[string]string{"mpirun": "mpirun (Open MPI) 4.1.4"})
	for argv, want := range map[string]string{
		"mpirun -n 2 -host a ./a":            "-host of the command line decides",
		"mpirun -n 2 ./a : -n 1 -host a ./b": "-host of the command line decides",
		"mpirun -n 2 ./a : ./b -n 1":         `does not say how many ranks run "./b -n 1"`,
		"mpirun -n 2 ./a : -n 1 ./b":         "does not have 4 ranks",
		"mpirun -n 2 ./a : -n 9 ./b":         "does not have 4 ranks",
	} {
		l, err := FindLauncher(t.Context(), strings.Fields(argv))
		must(t, err)
		if _, err = l.Command(strings.Fields(argv), Placement{Hosts: []string{"a", "b", "a", "c"}, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", argv, err)
		}
	}
}

func TestLaunchers_UsersSettingsStay(t *testing.T) {
	t.Setenv("SLURM_KILL_BAD_EXIT", "0")
	t.Setenv("SLURM_NNODES", "4")
	l, err := FindLauncher(t.Context(), []string{"srun"})
	must(t, err)
	launch, err := l.Command([]string{"srun"}, Placement{Down: []string{"n2"}, Needed: 3})
	must(t, err)
	if slices.Contains(launch.Env, "SLURM_KILL_BAD_EXIT=1") || !slices.Contains(launch.Env, "SLURM_NNODES=3") {
		t.Error(launch.Env)
	}
}

// With fewer nodes, the number of tasks that sbatch has set is wrong as well.
func TestLaunchers_FewerTasks(t *testing.T) {
	t.Setenv("SLURM_NTASKS", "8")
	t.Setenv("SLURM_NPROCS", "8")
	l, err := FindLauncher(t.Context(), []string{"srun"})
	must(t, err)
	for usual, want := range map[int]bool{0: false, 4: true} {
		launch, err := l.Command([]string{"srun"}, Placement{Down: []string{"n2"}, Needed: 3, Usual: usual})
		must(t, err)
		if slices.Contains(launch.Env, "SLURM_NTASKS=6") != want || slices.Contains(launch.Env, "SLURM_NPROCS=6") != want {
			t.Errorf("usually %d nodes: %q", usual, launch.Env)
		}
	}
}

func TestLaunchers_CannotAssign(t *testing.T) {
	commands(t, map[string]string{"mpirun": "mpirun (Open MPI) 4.1.4", "mpiexec": "HYDRA build details:"})
	for text, want := range map[string]string{
		"flux run -n4 ./app":               "flux cannot be told",
		"mpirun -n 4 --map-by core ./app":  "--map-by of the command line",
		"mpirun -x A -N 2 ./app":           "-N of the command line",
		"srun -n4 --nodelist=n1,n2 ./app":  "--nodelist of the command line",
		"srun -n4 -N2 ./app --nodelist=n1": "",
		"mpirun -n 4 ./app --map-by core":  "",
		"mpiexec -n 4 ./app":               "MPICH cannot start ranks on n[1,4] that are not consecutive",
	} {
		argv := strings.Fields(text)
		l, err := FindLauncher(t.Context(), argv)
		must(t, err)
		_, err = l.Command(argv, Placement{Nodes: []string{"n1", "n4"}, Hosts: []string{"n1", "n4", "n4", "n1"}, Dir: t.TempDir()})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The lines of Open MPI are recorded; those of srun have the format of its source.
func TestFailure(t *testing.T) {
	for line, want := range map[string]string{
		"mpirun.openmpi noticed that process rank 1 with PID 0 on node n1 exited on signal 9 (Killed).": "n1",
		"srun: error: n1: task 2: Killed":                                      "n1",
		"srun: error: n-2.x: tasks 2-3,5: Segmentation fault (core dumped)":    "n-2.x",
		"srun: error: n1: task 2: Exited with exit code 1":                     "",
		"Primary job  terminated normally, but 1 process returned":             "none",
		"srun: error: Unable to create step for job 2: Job/step already compl": "none",
		"srun: error: *** STEP 2.0 ON n1 CANCELLED AT 2026-11-22T10:00:00 ***": "none",
		"": "none",
	} {
		node, ok := Failure(line)
		if !ok {
			node += "none"
		}
		if node != want {
			t.Errorf("%q: %q, want %q", line, node, want)
		}
	}
}

func TestEnding(t *testing.T) {
	for line, want := range map[string]bool{
		"a non-zero exit code. Per user-direction, the job has been aborted.":                   true,
		"mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 9 (Killed).": true,
		"srun: error: n1: task 2: Exited with exit code 1":                                      true,
		"Primary job  terminated normally, but 1 process returned":                              false,
		"the job has been aborted":                                                              false,
	} {
		if got := Ending(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// What Open MPI 4.1, MPICH 4.0 and Slurm 22.05 write; and what they write of other errors.
func TestRejects(t *testing.T) {
	openMPI, hydra, srun := Launcher{"mpirun", false, byOpenMPI}, Launcher{"mpiexec", true, byHydra}, Launcher{"srun", false, bySrun}
	all := []Launcher{openMPI, hydra, srun, {}}
	for line, by := range map[string]*Launcher{
		`mpirun: Error: unknown option "--bogus"`:                                                   &openMPI,
		`/opt/bin/mpirun.openmpi: Error: option "-np" did not have enough parameters (1)`:           &openMPI,
		`app: Error: unknown option "--bogus"`:                                                      nil,
		"[mpiexec@n1] match_arg (utils/args/args.c:163): unrecognized argument bogus":               &hydra,
		"[mpiexec@n1] np_fn (ui/mpich/utils.c:788): missing command line argument, add -h for help": &hydra,
		"[mpiexec@n1] main (ui/mpich/mpiexec.c:127): error parsing parameters":                      nil, // as if the file of hosts cannot be read
		"srun: unrecognized option '--bogus'":                                                       &srun,
		"srun: invalid option -- 'Y'":                                                               &srun,
		"srun: option requires an argument -- 'n'":                                                  &srun,
		"srun: error: Unable to create step for job 2: Requested nodes are busy":                    nil,
		"app: unrecognized option '--bogus'":                                                        nil,
	} {
		for i := range all {
			if got := all[i].Rejects(line); got != (by != nil && by.name == all[i].name) {
				t.Errorf("%q: %s: %v", line, all[i].name, got)
			}
		}
	}
}

func TestLaunchers_Unknown(t *testing.T) {
	for _, argv := range [][]string{nil, {"./app"}, {"ssh", "srun"}} {
		if _, err := FindLauncher(t.Context(), argv); err == nil || !strings.Contains(err.Error(), "srun") {
			t.Errorf("%q: %v", argv, err)
		}
	}
	for _, argv := range [][]string{{"flux"}, {"flux", "submit"}} {
		l, err := FindLauncher(t.Context(), argv)
		must(t, err)
		if _, err := l.Command(argv, Placement{}); err == nil {
			t.Errorf("%q is accepted", argv)
		}
	}
	l, err := FindLauncher(t.Context(), []string{"aprun"})
	must(t, err)
	if _, err := l.Command([]string{"aprun"}, Placement{Nodes: []string{"login"}, Down: []string{"x"}}); err == nil {
		t.Error("aprun knows no nodes but by number")
	}
}

func TestEnd_AsSomebodySays(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings Settings
		vars     map[string]string
		want     time.Time
		fails    bool
	}{
		{name: "the user", settings: Settings{Name: "SLURM", End: time.Unix(7, 0)}, vars: map[string]string{"SLURM_JOB_END_TIME": "5"}, want: time.Unix(7, 0)},
		{name: "Slurm's variable", settings: Settings{Name: "AUTO"}, vars: map[string]string{"SLURM_JOB_ID": "1", "SLURM_JOB_END_TIME": "5"}, want: time.Unix(5, 0)},
		{name: "no number", settings: Settings{Name: "SLURM"}, vars: map[string]string{"SLURM_JOB_END_TIME": "noon"}, fails: true},
		{name: "nobody", settings: Settings{Name: "AUTO"}},
	} {
		m, err := Find(c.settings, environ(c.vars))
		must(t, err)
		if end, err := m.End(t.Context()); !end.Equal(c.want) || (err != nil) != c.fails {
			t.Errorf("%s: %v %v", c.name, end, err)
		}
	}
}
