package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// installed makes programs of these names, which only say which MPI they are of.
func installed(t *testing.T, names ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		name, says, _ := strings.Cut(name, "=")
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+says+"\n"), 0o700))
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	for _, name := range managerIDs {
		t.Setenv(name, "")
	}
}

func record(dir, launcher string, programs ...Program) *Record {
	r := &Record{Seq: 7, Name: "seven", Facts: Facts{Job: "17", Prefix: dir, Ranks: 4, Programs: programs}}
	if launcher != "" {
		r.Launcher = &Start{strings.Fields(launcher), dir}
	}
	return r
}

func TestLaunch(t *testing.T) {
	dir := t.TempDir()
	app := Program{Ranks: 4, Start: Start{[]string{"./app", "-x", "1"}, dir}, Environ: []string{"OMP_NUM_THREADS=2", "SCR_FLUSH=3", "SCR_JOB_ID=17"}}
	hosts := filepath.Join(dir, "hosts")
	must(t, os.WriteFile(hosts, []byte("n1\nn2\n"), 0o600))
	for _, c := range []struct{ name, installed, launcher, env, hosts, want string }{
		{"as it was", "mpirun.x=Open MPI", "mpirun.x -n 4 -H a,b wrapper ./app -x 1", "", "", "mpirun.x --opt -n 4 -H a,b wrapper ./app -x 1"},
		{"the number of ranks came from the nodes", "mpirun.x=Open MPI", "mpirun.x -H a,b ./app -x 1", "", "", "mpirun.x --opt -n 4 -H a,b ./app -x 1"},
		{"other nodes", "mpirun.x=Open MPI", "mpirun.x -np 4 -H a,b --map-by core ./app -x 1", "", hosts, "mpirun.x --opt --hostfile HOSTS -np 4 --map-by core ./app -x 1"},
		{"other nodes, Hydra", "mpirun.x=HYDRA", "mpirun.x -n 4 -f /old/hosts ./app -x 1", "", hosts, "mpirun.x --opt -f HOSTS -n 4 ./app -x 1"},
		{"another allocation", "srun.x=slurm", "srun.x -n4 -w a,b --nodelist=c -x d ./app -x 1", "SLURM_JOB_ID=18", "", "srun.x --opt -n4 ./app -x 1"},
		{"the same allocation", "srun.x=slurm", "srun.x -n4 -w a,b ./app -x 1", "SLURM_JOB_ID=17", "", "srun.x --opt -n4 -w a,b ./app -x 1"},
		{"srun with a list", "srun.x=slurm", "srun.x -n4 ./app -x 1", "", hosts, "srun.x --opt --nodelist=n1,n2 -n4 ./app -x 1"},
		{"a launcher that nobody has seen", "mpirun=Open MPI", "", "", "", "mpirun --opt -n 4 ./app -x 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			installed(t, c.installed)
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			command, err := record(dir, c.launcher, app).Launch(context.Background(), Restart{Prefix: dir, HostFile: c.hosts, Options: []string{"--opt"}})
			must(t, err)
			if got := strings.ReplaceAll(strings.Join(command.Argv, " "), hosts, "HOSTS"); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
			if command.Dir != dir || !slices.Contains(command.Env, "OMP_NUM_THREADS=2") || slices.Contains(command.Env, "SCR_JOB_ID=17") == (c.env == "SLURM_JOB_ID=18") {
				t.Errorf("%+v", command)
			}
		})
	}
}

// The program has said how it restarts: that takes the place of the programs of all ranks.
func TestLaunch_Command(t *testing.T) {
	dir := t.TempDir()
	programs := func(n int) (list []Program) {
		for i := range n {
			list = append(list, Program{First: i, Ranks: 4 / n, Start: Start{[]string{"./app", "-x"}, dir}})
		}
		return list
	}
	for _, c := range []struct {
		name, launcher string
		programs       int
		want           []string
	}{
		{"one program", "mpirun -n 4 -H a,b ./app -x", 1, []string{"mpirun", "-n", "4", "-H", "a,b", "/bin/sh", "-c", "cd x && ./again 'a b'"}},
		{"two", "mpirun -H a,b -n 2 ./app -x : -n 2 ./app -x", 2, []string{"mpirun", "-n", "4", "-H", "a,b", "/bin/sh", "-c", "cd x && ./again 'a b'"}},
		{"another launcher", "elsewhere -n 2 ./app -x", 2, []string{"mpirun", "-n", "4", "/bin/sh", "-c", "cd x && ./again 'a b'"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			installed(t, "mpirun=Open MPI")
			r := record(dir, c.launcher, programs(c.programs)...)
			r.Command = "cd x && ./again 'a b'"
			command, err := r.Launch(context.Background(), Restart{Prefix: dir})
			must(t, err)
			if !slices.Equal(command.Argv, c.want) {
				t.Errorf("%q\nwant\n%q", command.Argv, c.want)
			}
			text, _, err := r.AppFile(context.Background(), Restart{Prefix: dir}, "FILE")
			must(t, err)
			if n := strings.Count(text, `/bin/sh -c 'cd x && ./again '\''a b'\'''`); n != c.programs {
				t.Errorf("%d times in %s", n, text)
			}
		})
	}
}

// The prefix directory was moved; the user sets a parameter; an older checkpoint.
func TestLaunch_Elsewhere(t *testing.T) {
	installed(t, "mpirun=Open MPI")
	t.Setenv("SCR_FLUSH", "5")
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	r := record("/gone/p", "mpirun -n 4 -x SCR_PREFIX=/gone/p ./app --out /gone/p/out",
		Program{Ranks: 4, Start: Start{[]string{"./app", "--out", "/gone/p/out"}, "/gone/p/run"}, Environ: []string{"SCR_FLUSH=3"}})
	r.Launcher.Dir = "/gone/p/run"
	c, err := r.Launch(context.Background(), Restart{Prefix: dir, Current: "seven"})
	must(t, err)
	if c.Dir != filepath.Join(dir, "run") || !slices.Contains(c.Argv, "SCR_PREFIX="+dir) || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], `"/gone/p/out"`) {
		t.Errorf("%+v", c)
	}
	if want := []string{"SCR_PREFIX=" + dir, "SCR_CURRENT=seven"}; !slices.Equal(c.Env, want) {
		t.Errorf("%q", c.Env)
	}
	must(t, os.Remove(filepath.Join(dir, "run")))
	if _, err := r.Launch(context.Background(), Restart{Prefix: dir}); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Error(err)
	}
}

func TestLaunch_Incomplete(t *testing.T) {
	installed(t, "mpirun=Open MPI")
	dir := t.TempDir()
	secret := record(dir, "mpirun ./app", Program{Ranks: 4, Start: Start{[]string{"./app"}, dir}})
	secret.Command = keepText("./again --password abc")
	if strings.Contains(secret.Command, "abc") {
		t.Errorf("recorded is %q", secret.Command)
	}
	for text, r := range map[string]*Record{
		"may be a secret":                record(dir, "mpirun ./app --token "+Withheld, Program{Ranks: 4, Start: Start{[]string{"./app", "--token", Withheld}, dir}}),
		"only a part":                    record(dir, "mpirun ./app"),
		"not recorded because it may be": secret,
	} {
		if _, err := r.Launch(context.Background(), Restart{Prefix: dir}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAppFile(t *testing.T) {
	dir := t.TempDir()
	programs := []Program{{First: 0, Ranks: 3, Start: Start{[]string{"./a b", ""}, dir}}, {First: 3, Ranks: 1, Start: Start{[]string{"./c"}, "/"}}}
	for _, c := range []struct{ installed, launcher, text, argv string }{
		{"mpirun=Open MPI", "mpirun --bind-to core -n 3 x : -n 1 y", "-n 3 -wdir DIR './a b' ''\n-n 1 -wdir / ./c\n", "mpirun --app FILE"},
		{"mpirun=HYDRA", "mpirun -n 3 x", "-n 3 -wdir DIR './a b' ''\n-n 1 -wdir / ./c\n", "mpirun -configfile FILE"},
		{"srun=slurm", "srun --multi-prog x", "0-2 './a b' ''\n3-3 ./c\n", "srun -n 4 --multi-prog FILE"},
	} {
		installed(t, c.installed)
		text, command, err := record(dir, c.launcher, programs...).AppFile(context.Background(), Restart{Prefix: dir}, "FILE")
		must(t, err)
		if text = strings.ReplaceAll(text, dir, "DIR"); text != c.text || strings.Join(command.Argv, " ") != c.argv {
			t.Errorf("%s: %q, %q", c.launcher, text, command.Argv)
		}
	}
	one := programs[:1]
	one[0].Argv = []string{"./a"}
	installed(t, "mpirun=Open MPI")
	_, command, err := record(dir, "mpirun --bind-to core -np 3 ./a", one...).AppFile(context.Background(), Restart{Prefix: dir}, "FILE")
	must(t, err)
	if got := strings.Join(command.Argv, " "); got != "mpirun --bind-to core --app FILE" {
		t.Error(got)
	}
}
