package main

import (
	stdcontext "context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// command is one command of goscr. Its --help and its man page are made from these texts
// and the help of its options.
//
// In long and examples an empty line ends a paragraph, and lines that begin with
// blanks stay as they are.
type command struct {
	names    []string // the first is its main name
	short    string   // one line that says what it does
	synopsis []string // its arguments, for each way to call it
	long     string   // its description
	exit     status
	environ  []string // parameters that it depends on
	files    []file   // files that it reads or writes
	examples string
	see      []string // related commands

	takes   bool // it takes arguments besides options
	lenient bool // it warns of an option that it does not know: scripts decide by its exit status
	before  func(args []string) []string
	run     func(c *context, flags *pflag.FlagSet) func(args []string) error
}

// status says what the exit statuses 0 and 1 mean, if they do not just mean done and
// failed.
type status struct {
	intro, done, failed string

	// The exit status is 0 after any error, since it tells a loop of a script to stop:
	// a script that cannot ask must not continue for ever.
	stops bool
}

// file is the name of a file and its description.
type file struct{ name, about string }

// context has the streams of a command.
type context struct {
	in       io.Reader
	out, err io.Writer
	ignored  []string // lines about files that do not count, which have been printed
	alone    bool     // the process runs only this command, not a test
}

// ctx is the context of a command's calls. A command ends with its process, so nothing
// cancels it.
func (c *context) ctx() stdcontext.Context { return stdcontext.Background() }

func (c *context) encode(value any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// config reads the configuration, and prints which files do not count, each once.
func (c *context) config(name, prefix string) (*config.Config, error) {
	cfg, _, err := config.Read(prefix)
	if err != nil {
		return nil, err
	}
	for _, line := range cfg.Ignored {
		if !slices.Contains(c.ignored, line) {
			fmt.Fprintf(c.err, "%s: %s\n", name, line)
		}
		c.ignored = append(c.ignored, line)
	}
	return cfg, nil
}

// warn writes an error after which a command continues.
func (c *context) warn(name string) func(error) {
	return func(err error) { fmt.Fprintf(c.err, "%s: %s\n", name, oneLine(err)) }
}

// errUsage is wrapped by the error of a wrong command line.
var errUsage = errors.New("see --help")

// errNo is the answer no, which is not printed.
var errNo = errors.New("no")

// exitStatus is the error of a command that ends with the exit status of another command.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exactlyOne is an error unless just one of some options was given. none is the default
// if there is none, "" if that is an error.
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

// oneLine returns the text of an error on one line, even if names in it have line breaks.
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
