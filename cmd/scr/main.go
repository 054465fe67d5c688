// Scr contains all commands of goscr. If it is called through a link with the name of a
// command, it runs that command; otherwise its first argument names the command, with or
// without the prefix scr_.
//
// The exit status of a command is 0 for done, found or yes, and 1 for failed, not found or
// no, as in SCR; scripts depend on it. 2 is a wrong command line.
//
// A command is a value of type command; man pages (docs/man/*.1) are made from these
// values.
package main

//go:generate go run . man ../../docs/man

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/version"
)

// group is commands for the same people.
type group struct {
	title    string
	commands []command
}

// groups are all commands, in the order of the overview.
var groups = []group{
	{"Show and change datasets", []command{
		statusCommand, doctorCommand, reportCommand, indexCommand, flushFileCommand, inspectCacheCommand, nodesFileCommand, duCommand, cleanCommand, printCommand, crc32Command, mpiCommand,
	}},
	{"Run and stop a job", []command{
		runCommand, checkpointCommand, restartCommand, migrateCommand, haltCommand, haltCntlCommand, retriesHaltCommand, shouldExitCommand, ckptIntervalCommand,
	}},
	{"Save datasets that only the nodes have, after the last run", []command{
		postrunCommand, scavengeCommand, copyCommand, rebuildXORCommand, rebuildPartnerCommand, rebuildRSCommand,
	}},
	{"For scripts: the single steps of scr_run", []command{
		prerunCommand, envCommand, listDirCommand, listDownNodesCommand, checkNodeCommand, globHostsCommand, hostlistCommand,
		killJobstepCommand, testRuntimeCommand, stacksCommand, logEventCommand, logTransferCommand,
	}},
	{"Started by jobs and by other commands", []command{transferCommand, handoverCommand, preloadCommand, recorderCommand}},
}

// commands are those of all groups.
var commands = func() (all []command) {
	for _, g := range groups {
		all = append(all, g.commands...)
	}
	return all
}()

func main() {
	if filepath.Base(os.Args[0]) != eventlog.Command { // whose mask of signals is its own
		// A write past the limit of file sizes returns an error. The signal is not ignored,
		// since the programs that a command starts would inherit that.
		signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ)
	}
	if path, err := os.Executable(); err == nil {
		config.Installed(path)
	}
	os.Exit(execute(os.Args, &context{in: os.Stdin, out: os.Stdout, err: os.Stderr, alone: true}))
}

// execute runs the command that argv names and returns the exit status.
func execute(argv []string, c *context) int {
	name := filepath.Base(argv[0])
	args := argv[1:]
	if name == "scr" {
		if len(args) == 0 {
			args = []string{"help"}
		}
		if do, ok := ownCommands[args[0]]; ok {
			return c.report("scr", do(c, args[1:]))
		}
		name, args = args[0], args[1:]
		if findCommand(name) == nil {
			name = "scr_" + strings.TrimPrefix(name, "scr_")
		}
	}
	base, ompi := strings.CutPrefix(name, "ompi-") // the links in share/goscr/ompi
	if ompi {
		name = "scr_" + base
	}
	command := findCommand(name)
	if command == nil {
		meant := ""
		if like := similar(name); like != "" {
			meant = fmt.Sprintf("; did you mean %s?", like)
		}
		fmt.Fprintf(c.err, "scr: there is no command %s%s; scr help lists them\n", strings.TrimPrefix(name, "scr_"), meant)
		return 2
	}
	if len(args) == 1 && args[0] == "--version" {
		return c.report(name, printVersion(c, nil))
	}
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(c.err)
	flags.SortFlags = false
	flags.Usage = func() { command.help(c.out, name, flags) }
	run := command.run(c, flags)
	if command.before != nil {
		args = command.before(args)
	}
	if ompi {
		args = withTwoDashes(flags, args)
	}
	rest, err := c.parse(command, flags, args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		err = fmt.Errorf("%w; %w", meantOption(flags, err), errUsage)
	case !command.takes:
		err = noArguments(rest)
	}
	if err == nil {
		c.setPatience("", name)
		err = run(rest)
	}
	status := c.report(name, err)
	if command.exit.stops && !errors.Is(err, errNo) {
		return 0
	}
	return status
}

// setPatience has the waits of a command for other processes done as the configuration of
// a job says, with its lines on stderr.
func (c *context) setPatience(prefix, name string) {
	p := lock.Patience{Limit: time.Minute, Tell: func(line string) { fmt.Fprintf(c.err, "%s: %s\n", name, line) }}
	if cfg, err := c.config(name, prefix); err == nil {
		p.Limit = cfg.WaitTime
	}
	lock.SetPatience(p)
	meta.OnRefusal(c.warn(name))
}

// report prints an error and returns the exit status.
func (c *context) report(name string, err error) int {
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return 1
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintf(c.err, "%s: %s\n", name, oneLine(err))
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// findCommand returns a command by any of its names, nil if there is none.
func findCommand(name string) *command {
	for i := range commands {
		if slices.Contains(commands[i].names, name) {
			return &commands[i]
		}
	}
	return nil
}

// ownCommands are the commands of scr without a link.
var ownCommands = map[string]func(c *context, args []string) error{
	"version": printVersion, "--version": printVersion,
	"completion": completion, "complete": complete,
	"links": func(c *context, _ []string) error {
		for _, command := range commands {
			fmt.Fprintln(c.out, strings.Join(command.names, "\n"))
		}
		return nil
	},
	"man": func(c *context, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("scr man takes the directory for the pages; %w", errUsage)
		}
		for name, text := range manuals() {
			if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o666); err != nil {
				return err
			}
		}
		return nil
	},
}

func init() { // here, because overview executes commands
	for _, name := range []string{"help", "-h", "--help"} {
		ownCommands[name] = overview
	}
}

// manuals are the man pages of all commands, by the names of their files.
func manuals() map[string]string {
	self := command{
		names:    []string{"scr"},
		short:    "all commands of goscr in one program",
		synopsis: []string{"COMMAND [ARGUMENT...]", "help [--all | COMMAND]", "version", "completion bash|zsh|fish", "links", "man DIR"},
		long: `Every command scr_COMMAND is a link to this program, which can also be called with the name of the
command as its first argument, with or without scr_.

scr help lists the commands that most people need, scr help --all all of them, and scr help COMMAND prints the options of one. For installation, scr links prints the
names of all links, scr man writes the man pages into a directory, and scr completion prints what makes a shell
complete commands, options and names of datasets.`,
	}
	pages := map[string]string{}
	for _, c := range commands {
		self.see = append(self.see, c.names[0])
		pages[c.names[0]+".1"] = c.manual()
		for _, name := range c.names[1:] {
			pages[name+".1"] = ".so man1/" + c.names[0] + ".1\n"
		}
	}
	pages["scr.1"] = self.manual()
	pages["scr.conf.5"], pages["scr.7"] = confManual(), libraryManual()
	return pages
}

func printVersion(c *context, _ []string) error {
	_, err := fmt.Fprintf(c.out, "goscr %s, with the interface of SCR %s\n", version.Goscr(), session.Version)
	return err
}

// first are the commands that most people need, by who needs them.
var first = []struct {
	title string
	names []string
}{
	{"Your job", []string{"run", "status", "doctor", "checkpoint", "halt", "restart"}},
	{"Its checkpoints, and what they cost", []string{"index", "report"}},
	{"The nodes of a cluster", []string{"du", "clean"}},
}

// overview lists the commands that most people need, with --all all of them, or prints the help of one.
func overview(c *context, args []string) error {
	all := slices.Contains(args, "--all") || slices.Contains(args, "-a")
	if len(args) > 0 && !all {
		if status := execute([]string{"scr", args[0], "--help"}, c); status != 0 {
			return exitStatus(status)
		}
		return nil
	}
	fmt.Fprint(c.out, "scr - commands of the goscr checkpoint library\n\nusage: scr COMMAND [ARGUMENTS]\n")
	list := func(title string, commands []command) {
		fmt.Fprintf(c.out, "\n%s:\n", title)
		for _, command := range commands {
			fmt.Fprintf(c.out, "  %-15s %s\n", strings.TrimPrefix(command.names[0], "scr_"), command.short)
		}
	}
	if all {
		for _, g := range groups {
			list(g.title, g.commands)
		}
	} else {
		for _, g := range first {
			var some []command
			for _, name := range g.names {
				some = append(some, *findCommand("scr_" + name))
			}
			list(g.title, some)
		}
	}
	fmt.Fprint(c.out, "\nscr help COMMAND prints the options of a command")
	if !all {
		fmt.Fprintf(c.out, ", scr help --all lists all %d commands", len(commands))
	}
	fmt.Fprint(c.out, ", and scr --version prints the version of goscr. Each command can also be called as scr_COMMAND.\n")
	return nil
}

// similar returns the command whose name is most like one that there is not, "" if none is.
func similar(name string) string {
	var names []string
	for _, command := range commands {
		for _, other := range command.names {
			names = append(names, strings.TrimPrefix(other, "scr_"))
		}
	}
	return nearest(strings.TrimPrefix(name, "scr_"), names)
}

// nearest returns the word of a list that is most like a word that is not in it, "" if none is.
func nearest(word string, list []string) string {
	best, least := "", max(2, len(word)/3)+1 // so many letters may differ
	for _, other := range list {
		d := distance(word, other)
		if len(word) > 2 && strings.HasPrefix(other, word) {
			d = 1
		}
		if d < least && d < len(other) {
			best, least = other, d
		}
	}
	return best
}

// meantOption adds to the error of an option that there is not the one that is most like it.
func meantOption(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	if like := nearest(unknown.GetSpecifiedName(), optionNames(flags)); like != "" {
		err = fmt.Errorf("%w; did you mean --%s?", err, like)
	}
	return err
}

// optionNames returns the long options of a command.
func optionNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// distance is the number of letters to insert, delete, replace or exchange with the next
// that make one word of another.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := range rows[i] {
			if i == 0 {
				rows[0][j] = j
				continue
			}
			if j == 0 {
				continue
			}
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
