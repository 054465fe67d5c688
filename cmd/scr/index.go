package main

import (
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/prefix"
)

var indexCommand = command{
	names: []string{"scr_index"},
	use:   "[-p DIR] --list",
	short: "list the datasets in a prefix directory",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		list := flags.BoolP("list", "l", false, "list the datasets, newest first (what it does if nothing is asked for)")
		dir := flags.StringP("prefix", "p", "", "prefix directory (default: $SCR_PREFIX, else the current directory)")
		return func(args []string) error {
			_ = list
			if len(args) > 0 {
				return fmt.Errorf("argument %q is not expected; %w", args[0], errUsage)
			}
			path, err := prefixDir(*dir)
			if err != nil {
				return err
			}
			return c.listIndex(path)
		}
	},
}

// prefixDir is the prefix directory of a command: what its option says, else
// what the configuration says.
func prefixDir(option string) (string, error) {
	if option != "" {
		return filepath.Abs(option)
	}
	cfg, _, err := config.Read("")
	if err != nil {
		return "", err
	}
	return cfg.String("SCR_PREFIX"), nil
}

func (c *context) listIndex(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	x, err := prefix.ReadIndex(dir)
	if err != nil {
		return err
	}
	entries := x.Entries()
	if len(entries) == 0 {
		fmt.Fprintf(c.err, "no datasets in %s\n", dir)
		return nil
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DSET\tVALID\tFLUSHED\tCUR\tNAME")
	for _, e := range entries {
		valid, current := "NO", ""
		if e.Complete && !e.Failed {
			valid = "YES"
		}
		if e.Current {
			current = "*"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", e.ID, valid, e.Flushed, current, e.Name)
	}
	return table.Flush()
}
