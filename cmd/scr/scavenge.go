package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/prefix"
)

var scavengeCommand = command{
	names: []string{"scr_scavenge"},
	use:   "--id ID [-p DIR] [-d NODES]",
	short: "copy one dataset from the nodes to the prefix directory, and rebuild what is missing",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := prefixFlag(flags)
		id := flags.IntP("id", "i", 0, "the dataset")
		downList := flags.StringP("down", "d", "", "nodes to take for down whatever they say")
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			if *id < 1 {
				return fmt.Errorf("--id is missing; scr_flush_file --list-ckpt has the ids; %w", errUsage)
			}
			j, err := c.openJob(*dir)
			if err != nil {
				return err
			}
			nodes, err := j.Nodes(c.ctx())
			if err != nil {
				return err
			}
			down, err := c.allDown(j, *downList)
			if err != nil {
				return err
			}
			d := prefix.Unflushed{ID: *id, Name: fmt.Sprint(*id)}
			list, err := prefix.OnlyInCache(j.Prefix)
			if err != nil {
				return err
			}
			for _, known := range list {
				if known.ID == *id {
					d = known
				}
			}
			return j.Scavenge(c.ctx(), d, nodes, down)
		}
	},
}
