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
		short:    "rebuild scavenged files of a set of ranks that are missing, with " + scheme,
		synopsis: []string{"[-p DIR] FILE..."},
		long: `Rebuilds what is missing of the files of one set of ranks whose others have been copied to the prefix
directory with scr_copy. scr_index --build does this for all sets, and is what should be used.

FILE are the redundancy files that are left of the set, .scr/scr.dataset.ID/*_in_SET.` + kind + `. They say
which ranks belong to the set and which files each rank wrote. Ranks of which a file is missing are
rebuilt. Memory does not grow with the files.`,
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
