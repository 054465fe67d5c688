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
		names: []string{name},
		use:   "[-p DIR] FILE...",
		short: "rebuild scavenged files of a set of ranks that are missing, with " + scheme,
		run: func(c *context, flags *pflag.FlagSet) func([]string) error {
			dir := flags.StringP("prefix", "p", "", "prefix directory (default: $SCR_PREFIX, else the current directory)")
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
