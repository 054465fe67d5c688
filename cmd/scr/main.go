// Scr is every command of goscr in one program. Called by the name of a
// command, through a link, it is that command; otherwise its first argument
// names it, with or without the prefix scr_.
//
// A command returns 0 for done, found or yes, and 1 for failed, not found or
// no; scripts depend on it (spec 000 §11). 2 is a wrong command line.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/scr"
)

// command is one command of goscr.
type command struct {
	names []string // the first is the one it is known by
	use   string   // arguments
	short string   // what it does, one line
	long  string   // more about it, for --help
	run   func(c *context, flags *pflag.FlagSet) func(args []string) error
}

// context is what a command works with.
type context struct {
	in       io.Reader
	out, err io.Writer
	alone    bool // the process is the command's, and not a test's
}

var commands = []command{
	indexCommand, copyCommand, rebuildXORCommand, rebuildPartnerCommand, rebuildRSCommand,
	flushFileCommand, nodesFileCommand, retriesHaltCommand, haltCntlCommand, inspectCacheCommand,
	runCommand, prerunCommand, postrunCommand, scavengeCommand, shouldExitCommand, haltCommand, killJobstepCommand,
	listDownNodesCommand, checkNodeCommand, envCommand, listDirCommand, globHostsCommand, testRuntimeCommand,
	ckptIntervalCommand, stacksCommand, transferCommand,
	printCommand, crc32Command, logEventCommand, logTransferCommand, recorderCommand,
}

// exactlyOne is an error unless just one of some options was given. none is what
// to do if there is none, "" if that is wrong.
func exactlyOne(flags *pflag.FlagSet, none string, names ...string) (string, error) {
	var given []string
	for _, name := range names {
		if flags.Changed(name) {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 1:
		return given[0], nil
	case len(given) == 0 && none != "":
		return none, nil
	case len(given) == 0:
		return "", fmt.Errorf("one of --%s is needed; %w", strings.Join(names, ", --"), errUsage)
	}
	return "", fmt.Errorf("--%s do not go together; %w", strings.Join(given, " and --"), errUsage)
}

// noArguments is an error if there are any.
func noArguments(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("argument %q is not expected; %w", args[0], errUsage)
	}
	return nil
}

// oneLine is an error on one line, whatever names are in it.
func oneLine(err error) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// printable is text on one line.
func printable(text string) string {
	if dataset.CheckName(text) != nil {
		return strconv.Quote(text)
	}
	return text
}

// errUsage is wrapped by the error of a command line that makes no sense.
var errUsage = errors.New("see --help")

// errNo is the answer no, which needs no words.
var errNo = errors.New("no")

func main() {
	if filepath.Base(os.Args[0]) != eventlog.Command { // whose mask of signals is its own
		// That a file may not be so large is an error of writing it. Not ignored, which
		// the programs that a command starts would inherit.
		signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ)
	}
	os.Exit(execute(os.Args, &context{in: os.Stdin, out: os.Stdout, err: os.Stderr, alone: true}))
}

// execute runs the command that argv names and returns the exit status.
func execute(argv []string, c *context) int {
	name := filepath.Base(argv[0])
	args := argv[1:]
	if name == "scr" {
		if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
			overview(c.out)
			return 0
		}
		if args[0] == "--version" || args[0] == "version" {
			fmt.Fprintf(c.out, "goscr %s%s\n", scr.Version, revision())
			return 0
		}
		if args[0] == "links" {
			for _, command := range commands {
				fmt.Fprintln(c.out, strings.Join(command.names, "\n"))
			}
			return 0
		}
		name, args = "scr_"+strings.TrimPrefix(args[0], "scr_"), args[1:]
	}
	i := findCommand(name)
	if i < 0 {
		fmt.Fprintf(c.err, "scr: there is no command %s; scr help lists them\n", name)
		return 2
	}
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(c.err)
	flags.Usage = func() {
		fmt.Fprintf(c.out, "%s - %s\n\nusage: %s %s\n", name, commands[i].short, name, commands[i].use)
		if commands[i].long != "" {
			fmt.Fprintf(c.out, "\n%s\n", commands[i].long)
		}
		// What may be left out is said to be HOSTS, not what stands for its absence.
		if text := strings.ReplaceAll(flags.FlagUsages(), ` string[="`+omitted+`"]`, "[=HOSTS]     "); text != "" {
			fmt.Fprintf(c.out, "\n%s", text)
		}
	}
	run := commands[i].run(c, flags)
	if slices.Contains(runCommand.names, name) {
		args = runArguments(args)
	}
	err := flags.Parse(args)
	if err == nil {
		err = run(flags.Args())
	} else if !errors.Is(err, pflag.ErrHelp) {
		err = fmt.Errorf("%w; %w", err, errUsage)
	}
	var status exitStatus
	switch {
	case err == nil || errors.Is(err, pflag.ErrHelp):
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

// findCommand returns the place of a command in the list, -1 if there is none.
func findCommand(name string) int {
	return slices.IndexFunc(commands, func(x command) bool { return slices.Contains(x.names, name) })
}

// revision is the state of the sources that this was built from, where the build
// has recorded it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return ", " + s.Value
		}
	}
	return ""
}

func overview(out io.Writer) {
	fmt.Fprint(out, "scr - commands of the goscr checkpoint library\n\nusage: scr COMMAND [ARGUMENTS]\n\n")
	for _, c := range commands {
		fmt.Fprintf(out, "  %-15s %s\n", strings.TrimPrefix(c.names[0], "scr_"), c.short)
	}
	fmt.Fprint(out, "\nscr COMMAND --help says more. Each command can also be called as scr_COMMAND.\n")
}
