package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/node/remains"
	"github.com/goscr/goscr/internal/observe/report"
)

const aboutRemains = `A job has a directory <user>/scr.<job id> below SCR_CNTL_BASE, which has its locks and lists; one below SCR_CACHE_BASE;
and one in each store of its own STORE lines, which it lists beside its locks. Root sees the jobs of all users: for each
user the command starts itself again with the rights of that user, so users must be able to execute the program file.`

// remainsOptions are the options of commands about what jobs have left on the node.
type remainsOptions struct {
	user, job string
	older     age
	bases     []string
	json      bool
}

func remainsFlags(flags *pflag.FlagSet) *remainsOptions {
	o := &remainsOptions{}
	flags.StringVarP(&o.user, "user", "u", "", "only jobs of the user `NAME` (default: your own; all users for root)")
	flags.StringVarP(&o.job, "jobid", "j", "", "only the job with the id `ID`, which is that of SCR_JOB_ID or of the resource manager")
	flags.Var(&o.older, "older-than", "only jobs that have changed nothing for `TIME`, such as 90m, 12h or 2d")
	flags.StringArrayVarP(&o.bases, "base", "b", nil, "look below the directory `DIR`; may be given several times (default: SCR_CNTL_BASE and SCR_CACHE_BASE)")
	flags.BoolVar(&o.json, "json", false, "write JSON")
	return o
}

// nothing says that no job is selected.
func (o *remainsOptions) nothing() string {
	if o.job != "" {
		return fmt.Sprintf("no job with the id %s has left anything on this node below %s", printable(o.job), printable(strings.Join(o.bases, ", ")))
	}
	return "no job has left anything on this node"
}

// age is an option that takes a time, as 90m or 2d.
type age time.Duration

func (a *age) Type() string { return "TIME" }

func (a *age) String() string {
	if *a == 0 {
		return ""
	}
	return fmt.Sprintf("%ds", time.Duration(*a)/time.Second)
}

func (a *age) Set(text string) error {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	for unit, length := range units {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(digits, 10, 31)
			if err == nil && time.Duration(n) <= math.MaxInt64/length {
				*a = age(time.Duration(n) * length)
				return nil
			}
		}
	}
	return fmt.Errorf("%q is not a time, such as 90m, 12h or 2d", text)
}

// leftJob is a job that a command lists or removes.
type leftJob struct {
	remains.Job
	Removed bool   `json:"removed,omitempty"` // by scr_clean
	Why     string `json:"why,omitempty"`     // it was not, or is still needed
}

// left lists the jobs on the node that the options select, each after do was called for it
// by a process that has the rights of its user: this one, or one that root's command starts
// as the command called name with more options.
func (c *context) left(name string, o *remainsOptions, do func(*leftJob), more ...string) ([]leftJob, error) {
	if len(o.bases) == 0 {
		cfg, _, err := config.Read("")
		if err != nil {
			return nil, err
		}
		o.bases = slices.Compact([]string{cfg.CntlBase, cfg.CacheBase})
	}
	for i, base := range o.bases {
		var err error
		if o.bases[i], err = filepath.Abs(base); err != nil {
			return nil, err
		}
	}
	found, errs := remains.Find(remains.Query{Bases: o.bases, User: o.user, Job: o.job})
	for _, err := range errs {
		c.warn(name)(err)
	}
	all := []leftJob{}
	for _, j := range found {
		if o.older > 0 && time.Since(j.Changed) < time.Duration(o.older) {
			continue
		}
		l := leftJob{Job: j}
		do(&l)
		all = append(all, l)
	}
	if os.Geteuid() != 0 {
		return all, nil
	}
	args := append([]string{"--json"}, more...)
	for _, base := range o.bases {
		args = append(args, "--base", base)
	}
	for option, value := range map[string]string{"--user": o.user, "--jobid": o.job, "--older-than": o.older.String()} {
		if value != "" {
			args = append(args, option, value)
		}
	}
	var failed error
	for uid := range owners(o.bases, o.user) {
		theirs, err := c.as(uid, name, args)
		all = append(all, theirs...)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("user %d: %w", uid, err))
		}
	}
	slices.SortStableFunc(all, func(a, b leftJob) int { return strings.Compare(a.User, b.User) })
	return all, failed
}

// owners returns the users, other than root, to whom directories below bases belong.
func owners(bases []string, name string) map[uint32]bool {
	found := map[uint32]bool{}
	for _, base := range bases {
		entries, _ := os.ReadDir(base) // Find has reported the error
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.IsDir() || name != "" && e.Name() != name {
				continue
			}
			if jobs, err := filepath.Glob(filepath.Join(base, e.Name(), "scr.*")); err != nil || len(jobs) == 0 {
				continue
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
				found[st.Uid] = true
			}
		}
	}
	return found
}

// as runs a command of this program with the rights of a user, and returns the jobs that it
// lists.
func (c *context) as(uid uint32, name string, args []string) (jobs []leftJob, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0], cmd.Dir = name, "/"
	rights := &syscall.Credential{Uid: uid}
	text, err := exec.Command("id", "-G", strconv.Itoa(int(uid))).Output() // it asks the directory service, too
	if err != nil {
		return nil, fmt.Errorf("id -G %d: %w: the groups of this user are not known", uid, err)
	}
	for _, field := range strings.Fields(string(text)) {
		group, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("id -G %d: %w", uid, err)
		}
		rights.Groups = append(rights.Groups, uint32(group))
	}
	if len(rights.Groups) == 0 {
		return nil, fmt.Errorf("id -G %d prints no group", uid)
	}
	rights.Gid = rights.Groups[0]
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // the user can read the environment of the command
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: rights}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, c.err
	err = cmd.Run()
	var status *exec.ExitError
	if errors.As(err, &status) && status.ExitCode() == 1 {
		err = nil // the jobs say what was not removed, and why
	}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &jobs)
	}
	return jobs, err
}

var duCommand = command{
	names:    []string{"scr_du"},
	short:    "list the datasets that jobs have left on this node, and show which are still needed",
	synopsis: []string{"[--user NAME] [--jobid ID] [--older-than TIME] [--base DIR]... [--json]"},
	long: `Prints one line for each job. STATE is "running" if a process holds a lock of the job, else "ended". SIZE is the size
of the job's directories, and AGE the time since the last change in them. SAFE is "yes" if the prefix directory has
all of the job's datasets, or newer checkpoints. If not, a line on standard error names the datasets that are only here, and
their prefix directory; programs with the same job id may have had several.

` + aboutRemains,
	environ:  []string{"SCR_CNTL_BASE", "SCR_CACHE_BASE"},
	examples: `    scr_du --older-than 2d`,
	see:      []string{"scr_clean", "scr_inspect_cache", "scr_postrun"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		o := remainsFlags(flags)
		return func([]string) error {
			all, failed := c.left("scr_du", o, func(l *leftJob) { l.Why = l.Needed() })
			if o.json {
				return errors.Join(failed, c.encode(all))
			}
			if len(all) == 0 {
				fmt.Fprintln(c.err, o.nothing())
				return failed
			}
			table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "USER\tJOB\tSTATE\tSIZE\tAGE\tSAFE\tDIRECTORY")
			for _, l := range all {
				state, safe := "ended", "yes"
				if l.Alive {
					state = "running"
				}
				if l.Why != "" {
					safe = "no"
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(l.User), printable(l.ID), state, report.Bytes(l.Bytes), since(l.Changed), safe,
					printable(strings.Join(l.Dirs[:min(1, len(l.Dirs))], "")))
			}
			failed = errors.Join(failed, table.Flush())
			for _, l := range all {
				if l.Why != "" {
					fmt.Fprintf(c.err, "%s: %s\n", l.name(), oneLine(errors.New(l.Why)))
				}
			}
			return failed
		}
	},
}

// since is how long ago something was, as people read it.
func since(t time.Time) string {
	switch d := time.Since(t); {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	}
}

func (l *leftJob) name() string {
	return fmt.Sprintf("job %s of %s", printable(l.ID), printable(l.User))
}

// orphanAge is how long a job without a known control directory must have changed nothing
// before it is removed: without its locks nothing shows whether it runs.
const orphanAge = 24 * time.Hour

var cleanCommand = command{
	names:    []string{"scr_clean"},
	short:    "remove the datasets that ended jobs have left on this node",
	synopsis: []string{"[--dry-run] [--force] [--wait TIME] [--user NAME] [--jobid ID] [--older-than TIME] [--base DIR]... [--json]"},
	long: `Removes caches and control directories of jobs. It never removes those of a running job, which holds a lock on the
node. If the prefix directory has neither a dataset nor a newer checkpoint, the dataset stays, unless --force is given;
save such datasets with scr_postrun first. When a job is cancelled, Slurm calls the epilog of a node while scr_run still copies what is
there: --wait waits for that.

` + aboutRemains + `

Directories on storage that several nodes share stay, because a job on another node may use them. share/goscr/slurm has
a prolog and an epilog for Slurm, which call scr_clean.`,
	exit:    status{done: "All selected directories are removed, or none was there.", failed: "A directory stays, or the command failed; a line on standard error gives the reason."},
	environ: []string{"SCR_CNTL_BASE", "SCR_CACHE_BASE"},
	examples: `A list of the directories that it would remove:

    scr_clean --dry-run --older-than 2d`,
	see: []string{"scr_du", "scr_postrun", "scr_inspect_cache"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dry := flags.BoolP("dry-run", "n", false, "remove nothing, and print the directories that would be removed")
		force := flags.BoolP("force", "f", false, "also remove datasets that are not in the prefix directory; without --jobid, remove a job without locks only if nothing has changed for a day")
		var wait age
		flags.Var(&wait, "wait", "first wait, for at most `TIME`, for each scr_run that uses a prefix directory of the job: it may copy a dataset from here")
		o := remainsFlags(flags)
		return func([]string) error {
			var more []string
			if wait > 0 {
				more = append(more, "--wait", wait.String())
			}
			until := time.Now().Add(time.Duration(wait))
			for option, set := range map[string]bool{"--dry-run": *dry, "--force": *force} {
				if set {
					more = append(more, option)
				}
			}
			all, failed := c.left("scr_clean", o, func(l *leftJob) {
				if l.waitForRun(until) {
					l.findAgain(o.bases)
				}
				l.clean(*force, *dry, o.job != "")
			}, more...)
			if o.json {
				failed = errors.Join(failed, c.encode(all))
			}
			if len(all) == 0 && failed == nil && !o.json {
				fmt.Fprintln(c.err, o.nothing())
			}
			stays := false
			for _, l := range all {
				switch {
				case l.Why != "":
					stays = true
					if !o.json {
						fmt.Fprintf(c.err, "%s stays: %s\n", l.name(), oneLine(errors.New(l.Why)))
					}
				case o.json:
				case *dry:
					fmt.Fprintf(c.out, "%s would be removed: %s\n", l.name(), report.Bytes(l.Bytes))
				default:
					fmt.Fprintf(c.out, "%s is removed: %s\n", l.name(), report.Bytes(l.Bytes))
				}
			}
			if failed == nil && stays {
				return errNo
			}
			return failed
		}
	},
}

// waitForRun waits while scr_run uses one of the prefix directories of the job, and reports whether it did.
func (l *leftJob) waitForRun(until time.Time) (waited bool) {
	restarts := func(dir string) bool { return dir != "" && request.Restarts(dir) }
	for ; time.Now().Before(until) && slices.ContainsFunc(l.Prefixes(), restarts); waited = true {
		time.Sleep(200 * time.Millisecond)
	}
	return waited
}

// findAgain finds what the job has left now.
func (l *leftJob) findAgain(bases []string) {
	found, _ := remains.Find(remains.Query{Bases: bases, User: l.User, Job: l.ID}) // left has reported the errors
	if len(found) == 1 {
		l.Job = found[0]
	}
}

// clean removes a job, or says why not. named is whether the user has given its id.
func (l *leftJob) clean(force, dry, named bool) {
	switch {
	case l.Alive:
		l.Why = fmt.Sprintf("it is running: %s holds its lock", l.Holder)
	case l.Lost() && !named && time.Since(l.Changed) < orphanAge:
		l.Why = "its control directory is not found, so that nothing shows whether it runs: name it with --jobid, or wait until it has changed nothing for a day"
	case !force && l.Needed() != "":
		l.Why = l.Needed() + "; scr_postrun copies datasets to the prefix directory, and --force removes them"
	case dry:
	default:
		if err := l.Remove(force); err != nil {
			l.Why = err.Error()
			return
		}
		l.Removed = true
	}
}
