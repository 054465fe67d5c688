package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/hostlist"
	jobrun "github.com/goscr/goscr/internal/run"
)

var checkNodeCommand = command{
	names: []string{"scr_check_node"},
	use:   "[--free] [--cntl DIR[:BYTES],...] [--cache DIR[:BYTES],...]",
	short: "see whether this node's control and cache directories can be used",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		free := flags.BoolP("free", "f", false, "ask for room that is free, not for file systems of the size")
		cntl := flags.String("cntl", "", "control directories, each with the bytes there have to be")
		cache := flags.String("cache", "", "cache directories")
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			if *cntl == "" && *cache == "" {
				j, err := c.openJob("")
				if err != nil {
					return err
				}
				*cntl, *cache = strings.Join(j.ControlBases(), ","), strings.Join(j.CacheBases(), ",")
			}
			for _, list := range []string{*cntl, *cache} {
				if err := jobrun.CheckDirs(list, *free); err != nil {
					fmt.Fprintf(c.out, "FAIL: %v\n", err)
					return errNo
				}
			}
			fmt.Fprintln(c.out, "PASS")
			return nil
		}
	},
}

var listDownNodesCommand = command{
	names: []string{"scr_list_down_nodes"},
	use:   "[-r] [-f] [-d NODES] [-l] [-s N] [NODES]",
	short: "those of the job's nodes that cannot be used; exit status 1 if there are any",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		reason := flags.BoolP("reason", "r", false, "print each on a line of its own, and why")
		free := flags.BoolP("free", "f", false, "ask for room that is free, not for file systems of the size")
		downList := downFlag(flags)
		log := flags.BoolP("log", "l", false, "enter each into the job's log")
		secs := flags.IntP("secs", "s", 0, "... with this number of seconds that the run has taken")
		dir := prefixFlag(flags)
		return func(args []string) error {
			j, err := c.openJob(*dir)
			if err != nil {
				return err
			}
			var nodes []string
			if len(args) > 0 {
				nodes, err = hostlist.Parse(strings.Join(args, ","))
			} else {
				nodes, err = j.Nodes(c.ctx())
			}
			if err != nil {
				return err
			}
			known, err := downNodes(*downList)
			if err != nil {
				return err
			}
			down, err := j.Down(c.ctx(), nodes, known, *free)
			if err != nil || len(down) == 0 {
				return err
			}
			if *log {
				j.LogDown(c.ctx(), down, *secs)
			}
			if *reason {
				fmt.Fprintln(c.out, strings.Join(jobrun.Reasons(down), "\n"))
			} else {
				fmt.Fprintln(c.out, hostlist.Compress(names(down)))
			}
			return errNo
		}
	},
}

// downNodes reads the value of an option --down.
func downNodes(list string) (map[string]string, error) {
	nodes, err := hostlist.Expand(list)
	down := map[string]string{}
	for _, n := range nodes {
		down[n] = "named as down"
	}
	return down, err
}

func names(down map[string]string) []string {
	var list []string
	for n := range down {
		list = append(list, n)
	}
	return list
}
