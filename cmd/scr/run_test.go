package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/sys/lock"
)

func TestRunArguments(t *testing.T) {
	for args, want := range map[string]string{
		"srun|-n8|./app|-p|3":                     "--|srun|-n8|./app|-p|3",
		"-n8|--mpi=pmix|./app":                    "--|-n8|--mpi=pmix|./app",
		"-rc|./app 1|-rs|./app 2|srun|-n8":        "--run-cmd=./app 1|--restart-cmd=./app 2|--|srun|-n8",
		"--run-cmd=./app|--restart-cmd|x|-p|/a|x": "--run-cmd=./app|--restart-cmd=x|--prefix=/a|--|x",
		"srun|-n8|-rc|./app|-rs|./app -r":         "--restart-cmd=./app -r|--run-cmd=./app|--|srun|-n8",
		"srun|./app|-rc|x|y":                      "--|srun|./app|-rc|x|y",
		"--|srun|./app":                           "--|srun|./app",
		"--restart=must|srun|./app":               "--restart=must|--|srun|./app",
		"--help":                                  "--help",
		"":                                        "--",
	} {
		list := strings.Split(args, "|")
		if args == "" {
			list = nil
		}
		if got := strings.Join(runArguments(list), "|"); got != want {
			t.Errorf("%s: %s", args, got)
		}
	}
}

func TestWords(t *testing.T) {
	t.Setenv("FILE", "a b")
	got, err := words(`./app "$FILE" --from '$SCR_CKPT_NAME' $SCR_CKPT_NAME x\ y`)
	if err != nil || fmt.Sprintf("%q", got) != `["./app" "a b" "--from" "$SCR_CKPT_NAME" "SCR_CKPT_NAME" "x y"]` {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := words(`./app "`); err == nil {
		t.Error("no error")
	}
}

// alone makes the test's own machine the whole allocation.
func alone(t *testing.T) (prefix string) {
	prefix = t.TempDir()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "SCR_") {
			t.Setenv(name, "")
		}
	}
	base := t.TempDir()
	for name, value := range map[string]string{
		"SCR_PREFIX": prefix, "SCR_RESOURCE_MANAGER": "NONE", "SCR_JOB_ID": "j1", "SCR_USER_NAME": "me",
		"SCR_CNTL_BASE": base + "/cntl", "SCR_CACHE_BASE": base + "/cache",
		"SLURM_JOB_ID": "", "SLURM_JOBID": "", "FLUX_URI": "", "LSB_JOBID": "", "PBS_JOBID": "",
	} {
		t.Setenv(name, value)
	}
	return prefix
}

// fakeMpirun is found as mpirun, and starts the program, once.
func fakeMpirun(t *testing.T, body string) {
	dir := t.TempDir()
	text := "#!/bin/sh\n[ \"$1\" != --version ] || { echo 'mpirun (Open MPI) 4.1'; exit; }\n" + body
	must(t, os.WriteFile(filepath.Join(dir, "mpirun"), []byte(text), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestRun(t *testing.T) {
	prefix := alone(t)
	fakeMpirun(t, `while [ "$1" = -x ]; do shift 2; done; shift; exec "$@"`)
	t.Setenv("SCR_RUNS", "1")
	if _, said := run(t, 3, "scr_mpirun", "-n", "sh", "-c", "exit 3"); !strings.Contains(said, "run 1: exit status 3") {
		t.Error(said)
	}
	if _, said := run(t, 0, "scr_run", "-rc", "sh -c 'exit 0'", "mpirun", "-n"); !strings.Contains(said, "has ended by itself") {
		t.Error(said)
	}
	t.Setenv("SCR_RESTART", "may")
	run(t, 4, "scr_run", "--restart", "never", "mpirun", "-n", "sh", "-c", `[ "$SCR_RESTART" = never ] && exit 4`)
	must(t, halt.Change(prefix, map[halt.Field]string{halt.Because: "enough"}))
	if _, said := run(t, 1, "scr_run", "mpirun", "-n", "true"); !strings.Contains(said, "enough") {
		t.Error(said)
	}
	for _, args := range [][]string{{}, {"./app"}, {"--restart=no", "mpirun", "-n", "true"}, {"-rs", "x", "mpirun"}, {"-rc", "'", "mpirun"}} {
		run(t, 2, append([]string{"scr_run"}, args...)...)
	}
}

func TestHalt_Command(t *testing.T) {
	prefix := alone(t)
	listed := func(want ...string) {
		t.Helper()
		out, _ := run(t, 0, "scr_halt", "--list", prefix)
		head := "Halt file settings for " + halt.Path(prefix) + ":\n"
		if !strings.HasPrefix(out, head) {
			t.Errorf("%q does not begin with %q", out, head)
		}
		var got []string
		for line := range strings.Lines(strings.TrimPrefix(out, head)) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	listed("None")
	// No job runs, which the next one must not suffer for.
	for _, args := range [][]string{nil, {"-c", "2"}, {"-b", "2031-05-06T07:08"}, {"-i"}, {"-l", "-s", "90"}, {"-c", "2", "--unset-seconds"}} {
		if out, said := run(t, 1, append([]string{"scr_halt"}, args...)...); out != "" || !strings.Contains(said, "no job runs with the prefix directory "+prefix) || !strings.Contains(said, "--next") {
			t.Errorf("%q: %q %q", args, out, said)
		}
	}
	listed("None")
	// A batch script is a job, also before its first run.
	t.Setenv("SLURM_JOB_ID", "77")
	run(t, 0, "scr_halt", "-c", "5")
	listed("CheckpointsLeft: 5")
	t.Setenv("SLURM_JOB_ID", "")
	run(t, 0, "scr_halt", "--next", "-c", "3")
	listed("CheckpointsLeft: 3")
	run(t, 0, "scr_halt", "--unset-checkpoints")
	run(t, 0, "scr_halt", "--next")
	listed("ExitReason: JOB_HALTED")
	run(t, 0, "scr_halt", "-r", prefix)
	// scr_run holds its lock between two runs, and rank 0 of a job that of the job.
	loop, err := lock.Try(request.LoopPath(prefix), lock.Exclusive)
	must(t, err)
	run(t, 0, "scr_halt", "--checkpoints", "2")
	listed("CheckpointsLeft: 2")
	run(t, 0, "scr_halt", "-r", prefix)
	loop.Release()
	rank0, err := lock.Try(request.LockPath(prefix), lock.Exclusive)
	must(t, err)
	defer rank0.Release()
	run(t, 0, "scr_halt")
	listed("ExitReason: JOB_HALTED")
	run(t, 0, "scr_halt", "-r", prefix)
	run(t, 0, "scr_halt", "--checkpoints", "2", "--before", "2031-05-06T07:08", "-s", "90", "-a", "2030-01-01T00:00:00", prefix)
	listed("CheckpointsLeft: 2", "ExitAfter: Tue Jan 1 00:00:00 2030", "ExitBefore: Tue May 6 07:08:00 2031", "HaltSeconds: 90",
		"ExitBefore - HaltSeconds: Tue May 6 07:06:30 2031")
	run(t, 0, "scr_halt", "--unset-checkpoints", "--unset-before", "--unset-after", prefix)
	listed("HaltSeconds: 90")
	run(t, 0, "scr_halt", "--unset-seconds")
	listed("None")
	run(t, 0, "scr_halt", "-i", prefix)
	if at, err := halt.AtOnce(prefix, time.Now().Add(-time.Minute)); !at || err != nil {
		t.Error(at, err)
	}
	run(t, 0, "scr_halt", "--unset-reason", prefix)
	listed("None")
	run(t, 1, "scr_halt", filepath.Join(prefix, "none"))
	for _, args := range [][]string{{"-c", "x"}, {"-c", "-1"}, {"-b", "noon"}, {"-r", "-c", "1"}, {"-l", "-r"}, {"-c", "1", "--unset-checkpoints"}} {
		run(t, 2, append([]string{"scr_halt"}, args...)...)
	}
}

// Another user than that of the job is told what cannot be known.
func TestHalt_UnseenJob(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	prefix, err := os.MkdirTemp("", "halt.")
	must(t, err)
	defer os.RemoveAll(prefix)
	must(t, os.Mkdir(filepath.Join(prefix, ".scr"), 0o777))
	rank0, err := lock.Try(request.LockPath(prefix), lock.Exclusive)
	must(t, err)
	defer rank0.Release()
	for _, dir := range []string{prefix, filepath.Join(prefix, ".scr")} {
		must(t, os.Chmod(dir, 0o777))
	}
	// The directory of the test is root's.
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	name := filepath.Join(prefix, "scr_halt")
	must(t, os.WriteFile(name, self, 0o755))
	cmd := exec.Command(name, prefix)
	cmd.Dir = prefix
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "it cannot be seen whether a job runs") || !strings.Contains(string(out), "only user root and root can") ||
		!strings.Contains(string(out), "--next") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestEnvAndListDir(t *testing.T) {
	prefix := alone(t)
	t.Setenv("SCR_NODELIST", "n3,n[1-2]")
	out, _ := run(t, 0, "scr_env", "--prefix", "--nodes", "--jobid", "--user", "--endtime", "--down", "--runnodes")
	if want := "me\nj1\n0\nn1,n2,n3\n\n" + prefix + "\n0\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	run(t, 2, "scr_env")
	run(t, 2, "scr_env", "--nodes", "x")
	base := os.Getenv("SCR_CNTL_BASE")
	for _, x := range []struct{ want, args string }{
		{base + "/me/scr.j1", "scr_cntl_dir"},
		{base, "scr_cntl_dir --base"},
		{base + "/you/scr.9", "scr_list_dir -u you -j 9 control"},
		{os.Getenv("SCR_CACHE_BASE") + "/me/scr.j1", "scr_list_dir cache"},
	} {
		if out, _ := run(t, 0, strings.Fields(x.args)...); out != x.want+"\n" {
			t.Errorf("%s: %q", x.args, out)
		}
	}
	run(t, 2, "scr_list_dir")
	run(t, 2, "scr_list_dir", "both")
}

func TestCheckNode(t *testing.T) {
	alone(t)
	if out, _ := run(t, 0, "scr_check_node"); out != "scr_check_node: PASS\n" {
		t.Error(out)
	}
	dir := t.TempDir()
	if out, _ := run(t, 1, "scr_check_node", "--free", "--cache", dir+":9999999999999999"); !strings.HasPrefix(out, "scr_check_node: FAIL: "+dir+" has free") {
		t.Error(out)
	}
}

func TestListDownNodes(t *testing.T) {
	alone(t)
	t.Setenv("SCR_EXCLUDE_NODES", "n2")
	if out, _ := run(t, 0, "scr_list_down_nodes", "-d", "n[1,3]", "n[1-3]"); out != "n[1-3]\n" {
		t.Error(out)
	}
	if out, _ := run(t, 0, "scr_list_down_nodes", "-r", "-d", "n[1,3]", "n[1-3]"); out != "n1: named as down\nn2: excluded by SCR_EXCLUDE_NODES\nn3: named as down\n" {
		t.Error(out)
	}
	run(t, 1, "scr_list_down_nodes", "n[")
}

func TestShouldExit(t *testing.T) {
	prefix := alone(t)
	t.Setenv("SCR_NODELIST", "n[1-3]")
	t.Setenv("SCR_MIN_NODES", "3")
	if out, _ := run(t, 0, "scr_should_exit", "--down", "n[1-3]"); !strings.Contains(out, "0 nodes are left, and 3 are needed") {
		t.Error(out)
	}
	t.Setenv("SCR_NODELIST", "")
	t.Setenv("SCR_EXCLUDE_NODES", "$(hostname)")
	if out, said := run(t, 0, "scr_should_exit"); out != "" || !strings.Contains(said, "SCR_EXCLUDE_NODES") { // it cannot tell, so no other run
		t.Errorf("%q %q", out, said)
	}
	t.Setenv("SCR_EXCLUDE_NODES", "")
	t.Setenv("SCR_MIN_NODES", "1")
	run(t, 1, "scr_should_exit")
	must(t, halt.Change(prefix, map[halt.Field]string{halt.Because: "enough"}))
	if out, _ := run(t, 0, "scr_should_exit", "-d", "x"); !strings.Contains(out, "enough") {
		t.Error(out)
	}
}

func TestPrerunAndPostrun(t *testing.T) {
	prefix := alone(t)
	run(t, 0, "scr_prerun")
	if _, err := os.Stat(filepath.Join(prefix, ".scr")); err != nil {
		t.Error(err)
	}
	run(t, 0, "scr_postrun")
	run(t, 2, "scr_postrun", "x")
	run(t, 2, "scr_scavenge")
	run(t, 2, "scr_kill_jobstep")
	run(t, 1, "scr_kill_jobstep", "-j", "x")
	run(t, 0, "scr_test_runtime")
	t.Setenv("SCR_NODELIST", "n[1-2]")
	t.Setenv("PATH", t.TempDir())
	if _, said := run(t, 1, "scr_test_runtime"); !strings.Contains(said, "ssh") {
		t.Error(said)
	}
}

func TestCkptInterval(t *testing.T) {
	if out, _ := run(t, 0, "scr_ckpt_interval", "--cost", "10", "--mtbf", "2000"); !strings.HasPrefix(out, "compute for 193 s ") {
		t.Error(out)
	}
	if out, _ := run(t, 0, "scr_ckpt_interval", "-c", "100", "-m", "10"); !strings.HasPrefix(out, "compute for 10 s ") {
		t.Error(out)
	}
	run(t, 2, "scr_ckpt_interval", "--cost", "10")
	run(t, 2, "scr_ckpt_interval", "--cost", "NaN", "--mtbf", "1")
}

// Under scr_run the text log is on, and the job has the names of the resource manager, unless
// something else is set.
func TestRun_DescribesJob(t *testing.T) {
	dir := t.TempDir()
	names := []string{"SCR_LOG_ENABLE", "SCR_LOG_SYSLOG_ENABLE", "SCR_JOB_NAME", "SCR_CLUSTER_NAME", "SLURM_JOB_NAME", "SLURM_CLUSTER_NAME"}
	set := func(values ...string) {
		t.Helper()
		for i, name := range names {
			t.Setenv(name, values[i]) // so that it is as before after the test
			if values[i] == "" {
				must(t, os.Unsetenv(name))
			}
		}
		must(t, describeJob(dir))
	}
	check := func(want ...string) {
		t.Helper()
		for i, w := range want {
			if got := os.Getenv(names[i]); got != w {
				t.Errorf("%s=%s, want %s", names[i], got, w)
			}
		}
	}
	set("", "", "", "", "heat; rm -rf /", "atlas")
	check("1", "0", "heat; rm -rf /", "atlas")
	set("", "1", "mine", "", "heat", "")
	check("1", "1", "mine", "")
	set("0", "", "", "", "", "")
	check("0", "", "", "")
}
