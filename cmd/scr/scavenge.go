package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/job/batch"
	jobrun "github.com/goscr/goscr/internal/job/run"
	"github.com/goscr/goscr/internal/prefix"
)

var scavengeCommand = command{
	names:    []string{"scr_scavenge"},
	short:    "copy one dataset from the nodes to the prefix directory, and rebuild missing files",
	synopsis: []string{"--id ID [-p DIR] [-d NODES] [-f DIR] [-j NODES] [-v]"},
	long: `Does the work of scr_postrun for one dataset. scr_flush_file --list-ckpt and --list-output list the numbers of
datasets; scr_flush_file --need-flush says whether one is not in the prefix directory.`,
	environ:  ofNodes,
	examples: `    scr_scavenge --id 12 --prefix /p/run7`,
	see:      []string{"scr_postrun", "scr_copy", "scr_index", "scr_flush_file"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		id := flags.IntP("id", "i", 0, "copy dataset `ID`")
		known := downFlag(flags)
		from := flags.StringP("from", "f", "", "control directory `DIR` of the nodes (default: that of the job)")
		set := flags.StringP("jobset", "j", "", "the nodes of the job are `NODES` (default: as the resource manager says); the name of a launcher is ignored")
		return c.aboutJob(jobFlags(flags), func(j *jobrun.Job) error {
			if *id < 1 {
				return fmt.Errorf("--id is missing; scr_flush_file --list-ckpt has the ids; %w", errUsage)
			}
			if *from != "" {
				j.ControlDir = *from
			}
			if *set != "" && !slices.Contains(batch.Launchers(), *set) {
				j.Config.Nodelist = *set
			}
			nodes, down, err := c.nodesAndDown(j, *known)
			if err != nil {
				return err
			}
			d := prefix.Unflushed{ID: *id, Name: fmt.Sprint(*id)}
			list, err := prefix.OnlyInCache(j.Prefix)
			if err != nil {
				return err
			}
			for _, u := range list {
				if u.ID == *id {
					d = u
				}
			}
			return j.Scavenge(c.ctx(), d, nodes, down)
		})
	},
}
