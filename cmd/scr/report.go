package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/internal/observe/account/page"
)

var reportCommand = command{
	names:    []string{"scr_report"},
	short:    "compute from the log of a job the cost and the benefit of its checkpoints",
	synopsis: []string{"[LOG | PREFIX | mysql://USER:PASSWORD@HOST/DATABASE] [--html FILE] [--trace FILE] [--json]"},
	long: `Prints the runs of a job and the use of their time; the node-hours that checkpoints have taken and saved; the bytes
that were flushed to the prefix directory, and those that stayed in the caches; the time between checkpoints, and the
interval of Daly's formula for their cost and for the time between failures; and the node that was most often the
slowest. It reads a text log together with its older parts, an SQLite database, or both of a prefix directory. From a
database on a server it reads the jobs of all prefix directories; ?prefix=DIR at the end of the URL selects one, and
?socket=PATH names a socket.

The node-hours saved are the work up to the checkpoint from which a run restarted: without the checkpoint the job would
have computed it again.

The command leaves out lines that it cannot read; then its exit status is 1.`,
	exit:    status{done: "All of the log was read.", failed: "Some of it could not be read; a line on standard error says why."},
	environ: ofPrefix,
	files:   []file{{".scr/log", "the text log of a job"}, {".scr/log.sqlite", "the log of a job as a database"}},
	examples: `    scr_report /p/run7
    scr_report /p/run7 --html run7.html
    scr_report 'mysql://scr:secret@db/scrlog?prefix=/p/run7' --json`,
	see:   []string{"scr_status", "scr_ckpt_interval", "scr_index"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		html := flags.String("html", "", "write the report, with a timeline and charts, as one HTML `FILE` that needs no network")
		trace := flags.String("trace", "", "write the timeline as a trace `FILE` for Perfetto or chrome://tracing")
		asJSON := flags.Bool("json", false, "write the report as JSON")
		dir := prefixFlag(flags)
		return func(args []string) error {
			if len(args) > 1 {
				return noArguments(args[1:])
			}
			var what string
			if len(args) == 1 {
				what = args[0]
			} else {
				var err error
				if what, err = prefixDir(*dir); err != nil {
					return err
				}
			}
			a, broken := account.Read(what)
			if a == nil {
				return broken
			}
			a.EndRuns(what)
			if err := c.tellAccount(a, *html, *trace, *asJSON); err != nil {
				return err
			}
			return broken
		}
	},
}

// tellAccount writes an account in the ways that are asked for: to files, and on standard
// output.
func (c *context) tellAccount(a *account.Account, html, trace string, asJSON bool) error {
	for _, f := range []struct {
		path  string
		write func(io.Writer, *account.Account) error
	}{{html, page.HTML}, {trace, page.Trace}} {
		if f.path == "" {
			continue
		}
		if err := writeFile(f.path, func(w io.Writer) error { return f.write(w, a) }); err != nil {
			return err
		}
	}
	if asJSON {
		return c.encode(struct {
			*account.Account
			Totals account.Totals `json:"totals"`
		}{a, a.Totals()})
	}
	if html != "" || trace != "" {
		return nil
	}
	for _, line := range page.Lines(a) {
		if _, err := fmt.Fprintln(c.out, line); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file. One that is there keeps what it has until the new one is whole.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	b := bufio.NewWriter(f)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
