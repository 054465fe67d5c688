package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/hostlist"
	jobrun "github.com/goscr/goscr/internal/run"
)

var checkNodeCommand = command{
	names:    []string{"scr_check_node"},
	short:    "check that this node's control and cache directories can be used",
	synopsis: []string{"[--free] [--cntl DIR[:BYTES],...] [--cache DIR[:BYTES],...]"},
	long: `Makes the directories if they are not there, and tries whether files can be written in them. Prints PASS, or
FAIL and the reason. Without --cntl and --cache it looks at the directories of the job.`,
	exit:     status{done: "PASS", failed: "FAIL"},
	environ:  []string{"SCR_CNTL_BASE", "SCR_CACHE_BASE"},
	examples: `    scr_check_node --free --cache /l/ssd:100g`,
	see:      []string{"scr_list_down_nodes"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		free := flags.BoolP("free", "f", false, "require room that is free, not file systems of the size")
		cntl := flags.String("cntl", "", "control directories `DIRS`, separated by commas, each with the bytes there have to be")
		cache := flags.String("cache", "", "cache directories `DIRS`, likewise")
		return func([]string) error {
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
	names:    []string{"scr_list_down_nodes"},
	short:    "list the job's nodes that cannot be used; exit status 1 if there are any",
	synopsis: []string{"[-r] [-f] [-d NODES] [-l] [-s N] [NODES]"},
	long: `Prints the nodes of the job, or of NODES, that cannot be used: the resource manager considers them down,
SCR_EXCLUDE_NODES names them, they do not answer, or their control and cache directories cannot be written
(scr_check_node). All nodes are asked at the same time.`,
	exit:    status{done: "All nodes can be used.", failed: "Some cannot, or failed; then a line on standard error says why."},
	environ: ofNodes,
	examples: `    $ SCR_EXCLUDE_NODES=atlas17 scr_list_down_nodes --reason
    atlas17: excluded by SCR_EXCLUDE_NODES`,
	see:   []string{"scr_check_node", "scr_run", "scr_should_exit"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		reason := flags.BoolP("reason", "r", false, "print each on a line of its own, and why")
		free := flags.BoolP("free", "f", false, "require room that is free, not file systems of the size")
		downList := downFlag(flags)
		log := flags.BoolP("log", "l", false, "enter each into the job's log")
		secs := flags.IntP("secs", "s", 0, "with --log: the run has taken `N` seconds")
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
				fmt.Fprintln(c.out, hostlist.Compress(slices.Collect(maps.Keys(down))))
			}
			return errNo
		}
	},
}
