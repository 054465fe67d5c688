package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
)

// rebuildCommand rebuilds one set, as scr_index --build does for all.
func rebuildCommand(kind, scheme string) command {
	name := "scr_rebuild_" + kind
	return command{
		names:    []string{name},
		short:    "rebuild missing files of one redundancy set after a scavenge, with " + scheme,
		synopsis: []string{"[-p DIR] [" + kind + "|data|map] FILE..."},
		long: `Rebuilds the missing files of one redundancy set, whose other files scr_copy has copied to the prefix
directory. Users should call scr_index --build, which does this for all sets.

FILE are the redundancy files of the set that exist, .scr/scr.dataset.ID/*_in_SET.` + kind + `. They
list the ranks of the set and the files of each rank. The command rebuilds ranks with a missing file. Its
memory does not depend on the size of the files.

The first word may name what to rebuild, as for SCR 3.1. It has no effect: the command rebuilds files and their lists
together. Without -p, the prefix directory is the one in whose .scr the first FILE is.`,
		exit:     status{done: "All files of the set are there.", failed: "They cannot be rebuilt; a line on standard error says why."},
		environ:  ofPrefix,
		examples: `    scr_rebuild_` + kind + ` -p /p/run7 /p/run7/.scr/scr.dataset.12/*_in_0.` + kind,
		see:      []string{"scr_index", "scr_copy"},
		takes:    true,
		run: func(c *context, flags *pflag.FlagSet) func([]string) error {
			dir := prefixFlag(flags)
			return func(args []string) error {
				if len(args) > 0 && slices.Contains([]string{kind, "data", "map"}, args[0]) {
					args = args[1:]
				}
				if len(args) == 0 {
					return fmt.Errorf("the redundancy files (*.%s) that are left of the set are needed; %w", kind, errUsage)
				}
				for _, file := range args {
					if filepath.Ext(file) != "."+kind {
						return fmt.Errorf("%s is not called *.%s; %w", file, kind, errUsage)
					}
				}
				path, err := prefixDir(cmp.Or(*dir, prefixOf(args[0])))
				if err != nil {
					return err
				}
				meter := c.meter(name)
				list, err := scavenge.RebuildFiles(path, kind, args, c.warn(name), meter)
				meter.end()
				if err != nil {
					return err
				}
				for _, r := range list {
					for _, f := range r.Files {
						fmt.Fprintf(c.out, "rank %d: %s: %s\n", r.Rank, printable(f.Meta.File()), report.Bytes(f.Meta.Size()))
					}
				}
				if len(list) == 0 {
					fmt.Fprintf(c.err, "%s: all files of the set are there\n", name)
				}
				return nil
			}
		},
	}
}

// prefixOf is the prefix directory of a file of .scr/scr.dataset.ID, "" if it is not there.
func prefixOf(file string) string {
	path, err := filepath.Abs(file)
	if err != nil || filepath.Base(filepath.Dir(filepath.Dir(path))) != prefix.Metadata {
		return ""
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(path)))
}

var (
	rebuildXORCommand     = rebuildCommand("xor", "XOR")
	rebuildPartnerCommand = rebuildCommand("partner", "PARTNER")
	rebuildRSCommand      = rebuildCommand("rs", "Reed-Solomon")
)
