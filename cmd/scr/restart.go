package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/snapshot"
	"github.com/goscr/goscr/internal/sys/trust"
)

var restartCommand = command{
	names:    []string{"scr_restart"},
	short:    "start a job again from a checkpoint, with the recorded launcher and program",
	synopsis: []string{"[-p DIR] [-s SEQ] [--hostfile FILE] [--mpirun_opts OPTIONS] [-a | --preload] [-v] [REF]", "-i [--json] [-p DIR] [-s SEQ] [REF]"},
	long: `REF is the prefix directory, which scr_checkpoint prints, or the name of a checkpoint in the prefix directory of
SCR_PREFIX or in the current directory. The prefix directory may have been moved or copied since. Without -s the job
restarts from the newest usable checkpoint. The command prints a line for each checkpoint that it skips, because it is
incomplete or because a restart from it has failed. With -s, or with a name, the job deletes later checkpoints from the
cache. Under scr_run only the first run begins at this checkpoint, and later runs restart from the newest one.

The command executes the launcher that started the job, or another one that is installed, with the same number of ranks,
the same programs, arguments and working directory, and the recorded variables. It does so under scr_run if the job ran
under scr_run. In another allocation, or with --hostfile, it leaves out options that name nodes. Parameters of goscr in
the environment override recorded ones.

With --preload all nodes first copy the files of the checkpoint to their caches at the same time, each file once. The
nodes are those of --hostfile, else those of the allocation. If this fails, the job starts all the same, and fetches the
checkpoint itself.

A record never contains secrets. It has these variables of the environment: PATH, LD_LIBRARY_PATH, LD_PRELOAD,
PYTHONPATH, LANG, LC_*, TZ, the variables of SCR, OpenMP, MKL, Open MPI, MPICH, Intel MPI, UCX, libfabric, CUDA and
ROCm, and those that SCR_RECORD_ENV names. It never has a variable with a name such as PASSWORD, TOKEN, SECRET or
KEY, or with a password in an address. It has no such arguments either: then you have to start the job by hand.`,
	exit:    status{intro: "That of the launcher. Without a launcher:", done: "Done.", failed: "The job cannot be started; a line on standard error says why."},
	environ: append([]string{"SCR_RECORD", "SCR_RECORD_ENV"}, ofPrefix...),
	files: []file{{".scr/records.scr", "which checkpoint was written by which job"}, {".scr/records", "how these jobs were started"},
		{"goscr-restart.SEQ", "with -a: the programs and their ranks"}},
	examples: `    scr_restart /p/run7
    scr_restart -s 12 --hostfile nodes.txt /p/run7`,
	see:   []string{"scr_checkpoint", "scr_run", "scr_index", "scr_scavenge"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		o := &restartOptions{}
		prefix := prefixFlag(flags)
		flags.IntVarP(&o.seq, "seq", "s", -1, "restart from the checkpoint with the sequence number `SEQ`; -1: from the newest that can be used")
		flags.StringVar(&o.hostFile, "hostfile", "", "use the nodes in `FILE`")
		alias(flags, "hostfile", "machinefile", "")
		options := flags.StringArray("mpirun_opts", nil, "pass `OPTIONS`, several words in one, to the launcher")
		flags.BoolVarP(&o.file, "apponly", "a", false, "write the programs to a file, and print the command that starts them; do not start them")
		flags.BoolVarP(&o.info, "info", "i", false, "print the record of the checkpoint")
		flags.BoolVar(&o.json, "json", false, "with --info: print it as JSON")
		flags.BoolVar(&o.debug, "crdebug", false, "have each rank print its process after the restart and wait for a debugger; the program must be linked with libscr_cr.so")
		flags.BoolVar(&o.preload, "preload", false, "copy the checkpoint to the caches of the nodes before the program starts, all nodes at once")
		flags.StringVar(&o.trust, "trust", "", "restart by what `USER` has recorded, and obey the configuration files that this user has left in the prefix directory")
		flags.BoolVarP(&o.verbose, "verbose", "v", false, "print the command before it is started")
		return func(args []string) error {
			if len(args) > 1 {
				return noArguments(args[1:])
			}
			if len(args) == 1 {
				o.ref = args[0]
			}
			o.dir = *prefix
			for _, text := range *options {
				list, err := words(text)
				if err != nil {
					return fmt.Errorf("--mpirun_opts: %w; %w", err, errUsage)
				}
				o.options = append(o.options, list...)
			}
			return c.restart(o)
		}
	},
}

// restartOptions are the options of scr_restart.
type restartOptions struct {
	dir      string // prefix directory; "": ref, or that of the configuration
	ref      string // prefix directory, or name of a checkpoint; "": any checkpoint
	seq      int    // -1: the newest
	hostFile string
	options  []string // of the launcher
	trust    string   // users whose records count

	file, info, json, verbose bool
	debug                     bool
	preload                   bool
}

func (c *context) restart(o *restartOptions) error {
	dir, s, err := c.chooseSnapshot(o)
	if err != nil {
		return err
	}
	r, err := snapshot.Read(dir, s)
	if err != nil {
		return err
	}
	if o.info {
		if o.json {
			return c.encode(r)
		}
		describe(c.out, dir, s, r)
		return nil
	}
	if o.trust != "" {
		if err := os.Setenv(trust.Parameter, o.trust); err != nil { // the job reads it, too
			return err
		}
	}
	cfg, err := c.config("scr_restart", dir)
	if err != nil {
		return err
	}
	users, err := trust.ParseUsers(cfg.TrustUsers)
	if err != nil {
		return err
	}
	if err := r.Check(users); err != nil {
		return fmt.Errorf("%w, or give --trust and the name of the user", err)
	}
	to := snapshot.Restart{Prefix: dir, HostFile: o.hostFile, Options: o.options, Debug: o.debug}
	if o.seq >= 0 || o.ref == s.Name {
		to.Current = s.Name
	}
	if o.file {
		return c.writeAppFile(r, to)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, filepath.Join(dir, prefix.Metadata), unix.W_OK|unix.X_OK, unix.AT_EACCESS); errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s belongs to %s, and a job has to write to it: copy it (cp -a), and give the copy to scr_restart", dir, ownerOf(dir))
	}
	if err := request.Unseen(dir); err != nil {
		return fmt.Errorf("whether a job runs with the prefix directory %s cannot be seen: only %s and root can: %w", dir, ownerOf(dir), err)
	}
	if request.Alive(dir) || request.Restarts(dir) {
		return fmt.Errorf("a job runs with the prefix directory %s", dir)
	}
	command, err := r.Launch(c.ctx(), to)
	if err != nil {
		return err
	}
	if r.Runner != nil {
		err = underRun(command, r, to)
	} else {
		err = c.passVariables(command)
	}
	if err != nil {
		return err
	}
	for _, note := range command.Notes {
		fmt.Fprintf(c.err, "scr_restart: %s\n", note)
	}
	if s.InCache && !s.InPrefix {
		fmt.Fprintf(c.err, "scr_restart: checkpoint %d (%s) is only in the caches of the nodes; on other nodes the job restarts from an older one\n", s.Seq, printable(s.Name))
	}
	if o.preload {
		c.preload(s, r, command, to)
	}
	if o.verbose {
		fmt.Fprintf(c.err, "scr_restart: %s\n", command)
	}
	return replaceBy(command)
}

// chooseSnapshot finds the prefix directory and the checkpoint that are meant.
func (c *context) chooseSnapshot(o *restartOptions) (dir string, s snapshot.Snapshot, err error) {
	dir, name := o.dir, o.ref
	if info, err := os.Stat(o.ref); dir == "" && err == nil && info.IsDir() {
		dir, name = o.ref, ""
	}
	if dir == "" && filepath.IsAbs(name) {
		return "", s, fmt.Errorf("there is no prefix directory %s", name)
	}
	if dir, err = prefixDir(dir); err != nil {
		return "", s, err
	}
	list, err := snapshot.List(dir)
	if err != nil {
		return "", s, err
	}
	exact := o.seq >= 0 || name != ""
	for _, s := range list {
		switch {
		case o.seq >= 0 && s.Seq != o.seq, name != "" && s.Name != name:
		case s.Problem == "":
			return dir, s, nil
		case exact:
			return "", s, fmt.Errorf("checkpoint %d (%s) cannot be used: %s", s.Seq, printable(s.Name), s.Problem)
		default:
			fmt.Fprintf(c.err, "scr_restart: checkpoint %d (%s) is passed over: %s\n", s.Seq, printable(s.Name), s.Problem)
		}
	}
	switch {
	case name != "":
		return "", s, fmt.Errorf("%s is not a directory, and %s has no checkpoint of this name; scr_checkpoint -l lists the checkpoints", printable(name), dir)
	case exact:
		return "", s, fmt.Errorf("there is no checkpoint %d in %s; scr_checkpoint -l lists the checkpoints", o.seq, dir)
	}
	return "", s, fmt.Errorf("there is no checkpoint in %s that can be used", dir)
}

// writeAppFile writes the programs of a job to a file in the current directory, and prints
// the command that starts them.
func (c *context) writeAppFile(r *snapshot.Record, to snapshot.Restart) error {
	path, err := filepath.Abs(fmt.Sprintf("goscr-restart.%d", r.Seq))
	if err != nil {
		return err
	}
	text, command, err := r.AppFile(c.ctx(), to, path)
	if err == nil {
		err = c.passVariables(command)
	}
	if err == nil {
		err = hash.ReplaceFile(path, []byte(text), 0o644) // others must not write to it
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, command)
	return nil
}

// passVariables has a launcher pass the variables of goscr to all ranks.
func (c *context) passVariables(command *snapshot.Command) error {
	l, err := batch.FindLauncher(c.ctx(), command.Argv)
	if err != nil {
		return err
	}
	var names []string
	for _, v := range append(os.Environ(), command.Env...) {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "SCR_") && !slices.Contains(names, name) && !slices.Contains(command.Argv, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	launch, err := l.Command(command.Argv, batch.Placement{Vars: names})
	command.Argv = launch.Argv
	return err
}

// underRun puts scr_run before a launcher, with the options that it had.
func underRun(command *snapshot.Command, r *snapshot.Record, to snapshot.Restart) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return err
	}
	own := runArguments(r.Runner.Argv[1:])
	own = own[:slices.Index(own, "--")]
	separate := false // the program is given by an option of scr_run
	argv := []string{self, "run", "--prefix", to.Prefix}
	for i := 0; i < len(own); i++ {
		name, _, assigned := strings.Cut(own[i], "=")
		separate = separate || name == "--run-cmd"
		n := 2
		if assigned {
			n = 1
		}
		if name != "--prefix" {
			argv = append(argv, own[i:i+n]...)
		}
		i += n - 1
	}
	launcher := command.Argv
	if first := r.Programs[0].Argv; separate && len(launcher) >= len(first) {
		launcher = launcher[:len(launcher)-len(first)]
	}
	command.Argv = append(append(argv, "--"), launcher...)
	return nil
}

// replaceBy replaces this process by a command; tests replace it.
var replaceBy = func(command *snapshot.Command) error {
	path, err := exec.LookPath(command.Argv[0])
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	if err := os.Chdir(command.Dir); err != nil {
		return err
	}
	env := os.Environ()
	for _, v := range command.Env {
		name, _, _ := strings.Cut(v, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, v)
	}
	return fmt.Errorf("%s: %w", path, unix.Exec(path, command.Argv, env))
}

// describe prints what is recorded with a checkpoint.
func describe(out io.Writer, dir string, s snapshot.Snapshot, r *snapshot.Record) {
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(out, "%-18s %s\n", label+":", printable(text))
		}
	}
	quotedWords := func(argv []string) string { return strings.Join(quotedEach(argv), " ") }
	line("Snapshot Ref.", fmt.Sprintf("%d %s", s.Seq, dir))
	line("name", s.Name)
	line("begun", r.Begun.Format(time.DateTime))
	line("complete", r.Ended.Format(time.DateTime))
	line("goscr", r.Version)
	line("job", r.Job)
	line("job name", r.Facts.Name)
	line("user", r.User)
	line("cluster", r.Cluster)
	line("prefix directory", r.Prefix)
	line("ranks", fmt.Sprint(r.Ranks))
	byRanks := map[int][]string{}
	for _, n := range r.Nodes {
		byRanks[n.Ranks] = append(byRanks[n.Ranks], n.Name)
	}
	for _, n := range slices.Sorted(maps.Keys(byRanks)) {
		line("nodes", fmt.Sprintf("%s, each with %d ranks", hostlist.Compress(byRanks[n]), n))
	}
	line("modules", r.Modules)
	if r.Runner != nil {
		line("scr_run", quotedWords(r.Runner.Argv))
	}
	if r.Launcher != nil {
		line("launcher", quotedWords(r.Launcher.Argv))
	}
	line("restart command", r.Command)
	for _, p := range r.Programs {
		line(fmt.Sprintf("ranks %d-%d", p.First, p.First+p.Ranks-1), quotedWords(p.Argv))
		line("  in", p.Dir)
		for _, v := range p.Environ {
			line("  with", v)
		}
	}
	if r.Partial {
		line("note", "there are more programs, which are not recorded")
	}
}

// quotedEach returns words with quotes around those that need them.
func quotedEach(argv []string) (list []string) {
	for _, word := range argv {
		if word == "" || strings.ContainsAny(word, " \t\"'\\") {
			word = strconv.Quote(word)
		}
		list = append(list, word)
	}
	return list
}
