package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/scavenge"
)

// rebuildCommand rebuilds one set, as scr_index --build does for all.
func rebuildCommand(kind, scheme string) command {
	name := "scr_rebuild_" + kind
	return command{
		names:    []string{name},
		short:    "rebuild missing files of one redundancy set after a scavenge, with " + scheme,
		synopsis: []string{"[-p DIR] FILE..."},
		long: `Rebuilds the missing files of one redundancy set, whose other files scr_copy has copied to the prefix
directory. Users should call scr_index --build, which does this for all sets.

FILE are the redundancy files of the set that exist, .scr/scr.dataset.ID/*_in_SET.` + kind + `. They say
which ranks belong to the set and which files each rank wrote. Ranks with a missing file are rebuilt. The
memory that this needs does not depend on the size of the files.`,
		exit:     status{done: "All files of the set are there.", failed: "They cannot be rebuilt; a line on standard error says why."},
		environ:  ofPrefix,
		examples: `    scr_rebuild_` + kind + ` -p /p/run7 /p/run7/.scr/scr.dataset.12/*_in_0.` + kind,
		see:      []string{"scr_index", "scr_copy"},
		takes:    true,
		run: func(c *context, flags *pflag.FlagSet) func([]string) error {
			dir := prefixFlag(flags)
			return func(args []string) error {
				if len(args) == 0 {
					return fmt.Errorf("the redundancy files (*.%s) that are left of the set are needed; %w", kind, errUsage)
				}
				for _, file := range args {
					if filepath.Ext(file) != "."+kind {
						return fmt.Errorf("%s is not called *.%s; %w", file, kind, errUsage)
					}
				}
				path, err := prefixDir(*dir)
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

var (
	rebuildXORCommand     = rebuildCommand("xor", "XOR")
	rebuildPartnerCommand = rebuildCommand("partner", "PARTNER")
	rebuildRSCommand      = rebuildCommand("rs", "Reed-Solomon")
)
