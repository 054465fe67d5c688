package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/internal/job/batch"
)

// Restart says how a job is to be started again.
type Restart struct {
	Prefix   string   // where the prefix directory is now
	HostFile string   // the nodes to use, "" if the launcher finds them
	Options  []string // more options of the launcher
	Current  string   // the checkpoint to restart from, "" for the newest
	Debug    bool     // whether the ranks are to wait for a debugger
}

// Command is a command line with its working directory, and variables that it needs besides
// those of this process.
type Command struct {
	Argv []string
	Dir  string
	Env  []string
	// Notes are what a user should know who starts it.
	Notes []string
}

// Launch returns the command line of the launcher that starts the job of a record again. It
// is the recorded one if that is installed here, else another one.
func (r *Record) Launch(ctx context.Context, to Restart) (*Command, error) {
	if err := r.complete(); err != nil {
		return nil, err
	}
	c := &Command{Dir: r.moved(r.Programs[0].Dir, to.Prefix), Env: r.environ(to)}
	options, rest := r.options()
	name, err := r.launcher()
	if err != nil {
		return nil, err
	}
	if r.Launcher == nil || kind(name) != kind(r.Launcher.Argv[0]) {
		c.Notes = append(c.Notes, fmt.Sprintf("the launcher %s is used, whose options are not known from the checkpoint", name))
		options, rest = nil, r.Programs[0].Argv
		if len(r.Programs) > 1 && r.Command == "" {
			return nil, fmt.Errorf("the ranks run %d programs; -a writes them to a file for %s", len(r.Programs), name)
		}
	} else if r.Launcher.Dir != "" {
		c.Dir = r.moved(r.Launcher.Dir, to.Prefix)
	}
	single := len(r.Programs) == 1
	if r.Command != "" {
		if !single { // the options are those of the first of several programs
			options, single = dropRanks(options), true
		}
		rest = r.shell()
	}
	if to.HostFile != "" || r.elsewhere() {
		options = dropHosts(kind(name), options)
	}
	if single && !slices.ContainsFunc(options, setsRanks) {
		options = append([]string{"-n", strconv.Itoa(r.Ranks)}, options...)
	}
	if to.HostFile != "" {
		host, err := hostOptions(ctx, name, to.HostFile)
		if err != nil {
			return nil, err
		}
		options = append(host, options...)
	}
	c.Argv = slices.Concat([]string{name}, to.Options, options, rest)
	for i, word := range c.Argv {
		if word == "SCR_PREFIX="+r.Prefix {
			c.Argv[i] = "SCR_PREFIX=" + to.Prefix
		} else if to.Prefix != r.Prefix && strings.Contains(word, r.Prefix) {
			c.Notes = append(c.Notes, fmt.Sprintf("the prefix directory was %s, which the argument %q still names", r.Prefix, word))
		}
	}
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the job was started in %s, which is not there", c.Dir)
	}
	return c, nil
}

// complete returns an error unless the record has all that is needed to start the job.
func (r *Record) complete() error {
	if len(r.Programs) == 0 || r.Partial {
		return fmt.Errorf("checkpoint %d (%s): only a part of its programs is recorded", r.Seq, r.Name)
	}
	all := slices.Clone(r.Programs[0].Argv)
	for _, p := range r.Programs {
		all = append(all, p.Argv...)
	}
	if r.Launcher != nil {
		all = append(all, r.Launcher.Argv...)
	}
	if r.Command != "" {
		all = append(all, r.Command)
	}
	for _, word := range all {
		if strings.Contains(word, Withheld) {
			return fmt.Errorf("checkpoint %d (%s): an argument was not recorded because it may be a secret; start the job with the command that -a prints, "+
				"with the argument in place of %s", r.Seq, r.Name, Withheld)
		}
	}
	return nil
}

// shell is the command with which the program restarts, as words.
func (r *Record) shell() []string { return []string{"/bin/sh", "-c", r.Command} }

// moved returns a directory that may have been moved with the prefix directory.
func (r *Record) moved(dir, prefix string) string {
	if rel, err := filepath.Rel(r.Prefix, dir); err == nil && filepath.IsLocal(rel) {
		return filepath.Join(prefix, rel)
	}
	return dir
}

// environ returns the recorded variables. The user's present choice of a parameter counts
// more.
func (r *Record) environ(to Restart) (list []string) {
	for _, v := range r.Programs[0].Environ {
		name, _ := cut(v)
		if _, set := os.LookupEnv(name); set && strings.HasPrefix(name, "SCR_") {
			continue
		}
		if name == "SCR_JOB_ID" && r.elsewhere() { // each allocation has its own
			continue
		}
		list = append(list, v)
	}
	list = append(list, "SCR_PREFIX="+to.Prefix)
	if to.Current != "" {
		list = append(list, "SCR_CURRENT="+to.Current)
	}
	if to.Debug {
		list = append(list, "SCR_CR_DEBUG=1")
	}
	return list
}

// managerIDs are the variables in which resource managers tell the id of an allocation.
var managerIDs = []string{"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID"}

// elsewhere reports whether this process is in another allocation than the job was.
func (r *Record) elsewhere() bool {
	for _, name := range managerIDs {
		if id := os.Getenv(name); id != "" {
			return id != r.Job
		}
	}
	return false
}

// kind is the name of a launcher without its directory, and without what Debian appends.
func kind(launcher string) string {
	name, _, _ := strings.Cut(filepath.Base(launcher), ".")
	return name
}

// launcher returns the launcher to use: the recorded one, or another that is here.
func (r *Record) launcher() (string, error) {
	var names []string
	if r.Launcher != nil && len(r.Launcher.Argv) > 0 {
		names = append(names, r.Launcher.Argv[0], filepath.Base(r.Launcher.Argv[0]))
	}
	if os.Getenv("SLURM_JOB_ID") != "" {
		names = append(names, "srun")
	}
	names = append(names, "mpirun", "mpiexec", "srun")
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("none of these launchers is installed: %s", strings.Join(slices.Compact(names), ", "))
}

// options divides the recorded command line of the launcher into its options, and the
// program with its arguments. If the program is not found in it, all are rest.
func (r *Record) options() (options, rest []string) {
	if r.Launcher == nil || len(r.Launcher.Argv) == 0 {
		return nil, r.Programs[0].Argv
	}
	words := r.Launcher.Argv[1:]
	first := r.Programs[0].Argv
	for i := range words {
		if i+len(first) <= len(words) && slices.Equal(words[i:i+len(first)], first) {
			return slices.Clone(words[:i]), slices.Clone(words[i:])
		}
	}
	return nil, slices.Clone(words)
}

// setsRanks reports whether a word sets the number of ranks.
func setsRanks(word string) bool {
	for _, o := range []string{"-n", "--n", "-np", "--np", "-c", "--ntasks", "--app", "-app", "-configfile", "--multi-prog"} {
		if word == o || strings.HasPrefix(word, o+"=") || o == "-n" && len(word) > 2 && strings.HasPrefix(word, o) && word[2] >= '0' && word[2] <= '9' {
			return true
		}
	}
	return false
}

// dropRanks removes the options that set the number of ranks.
func dropRanks(options []string) (left []string) {
	for i := 0; i < len(options); i++ {
		if !setsRanks(options[i]) {
			left = append(left, options[i])
		} else if !strings.ContainsAny(options[i], "=0123456789") {
			i++
		}
	}
	return left
}

// hostOptionsOf are the options that name nodes, each with a value, by the kind of the
// launcher; "" is for mpirun and mpiexec.
var hostOptionsOf = map[string][]string{
	"srun": {"-w", "--nodelist", "-x", "--exclude"},
	"":     {"--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f", "-H", "--host", "-host", "-hosts", "--hosts"},
}

// dropHosts removes the options that name nodes.
func dropHosts(kind string, options []string) (left []string) {
	names, ok := hostOptionsOf[kind]
	if !ok {
		names = hostOptionsOf[""]
	}
	for i := 0; i < len(options); i++ {
		name, _, assigned := strings.Cut(options[i], "=")
		switch {
		case slices.Contains(names, name) && !assigned:
			i++
		case slices.Contains(names, name):
		default:
			left = append(left, options[i])
		}
	}
	return left
}

// hostOptions returns the options by which a launcher uses the nodes of a host file.
func hostOptions(ctx context.Context, launcher, file string) ([]string, error) {
	nodes, _, err := batch.Hosts(file)
	if err != nil {
		return nil, err
	}
	if file, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	if kind(launcher) == "srun" {
		return []string{"--nodelist=" + strings.Join(nodes, ",")}, nil
	}
	l, err := batch.FindLauncher(ctx, []string{launcher})
	if err != nil {
		return nil, err
	}
	return []string{l.HostFileOption(), file}, nil
}

// AppFile returns the programs of the ranks in the form that a launcher reads from a file,
// and the command that starts them by such a file.
func (r *Record) AppFile(ctx context.Context, to Restart, path string) (text string, c *Command, err error) {
	name, err := r.launcher()
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, p := range r.Programs {
		if r.Command != "" {
			p.Argv = r.shell()
		}
		if kind(name) == "srun" {
			fmt.Fprintf(&b, "%d-%d %s\n", p.First, p.First+p.Ranks-1, quoted(p.Argv))
		} else {
			fmt.Fprintf(&b, "-n %d -wdir %s %s\n", p.Ranks, quoted([]string{r.moved(p.Dir, to.Prefix)}), quoted(p.Argv))
		}
	}
	c = &Command{Dir: r.moved(r.Programs[0].Dir, to.Prefix), Env: r.environ(to)}
	options := []string{"-n", strconv.Itoa(r.Ranks), "--multi-prog", path}
	if kind(name) != "srun" {
		l, err := batch.FindLauncher(ctx, []string{name})
		if err != nil {
			return "", nil, err
		}
		options = []string{l.AppFileOption(), path}
	}
	if r.Launcher != nil && kind(name) == kind(r.Launcher.Argv[0]) {
		own, _ := r.options()
		if own = dropRanks(own); to.HostFile != "" || r.elsewhere() {
			own = dropHosts(kind(name), own)
		}
		options = append(own, options...)
	}
	if to.HostFile != "" {
		host, err := hostOptions(ctx, name, to.HostFile)
		if err != nil {
			return "", nil, err
		}
		options = append(host, options...)
	}
	c.Argv = slices.Concat([]string{name}, to.Options, options)
	return b.String(), c, nil
}

// quoted returns words for a shell, or a file that is read in its manner.
func quoted(words []string) string {
	list := slices.Clone(words)
	for i, w := range list {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`&|;<>()*?[]#~%!{}") {
			list[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(list, " ")
}

// String is the command as a line for a shell.
func (c *Command) String() string {
	env := slices.Clone(c.Env)
	for i, v := range env {
		name, value := cut(v)
		env[i] = name + "=" + quoted([]string{value})
	}
	return fmt.Sprintf("cd %s && env %s %s", quoted([]string{cmp.Or(c.Dir, ".")}), strings.Join(env, " "), quoted(c.Argv))
}
