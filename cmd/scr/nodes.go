package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/job/hostlist"
	jobrun "github.com/goscr/goscr/internal/job/run"
)

var checkNodeCommand = command{
	names:    []string{"scr_check_node"},
	short:    "check that this node's control and cache directories can be used",
	synopsis: []string{"[--free] [--cntl DIR[:BYTES],...] [--cache DIR[:BYTES],...]"},
	long: `Makes the directories if necessary, and tests whether it can write files in them. Prints
"scr_check_node: PASS", or "scr_check_node: FAIL:" and the reason. Without --cntl and --cache it looks at the directories of the job.`,
	exit:     status{done: "PASS", failed: "FAIL"},
	environ:  []string{"SCR_CNTL_BASE", "SCR_CACHE_BASE"},
	examples: `    scr_check_node --free --cache /l/ssd:100g`,
	see:      []string{"scr_list_down_nodes"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		free := flags.BoolP("free", "f", false, "require free room, not only file systems of the size")
		cntl := flags.String("cntl", "", "control directories `DIRS`, separated by commas, each with the bytes that it needs")
		f := c.facts(flags)
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
					return errors.Join(errNo, f.say(map[string]any{"pass": false, "why": err.Error()}, fmt.Sprintf("%s%v", jobrun.CheckFailed, err)))
				}
			}
			return f.say(map[string]any{"pass": true}, "scr_check_node: PASS")
		}
	},
}

var listDownNodesCommand = command{
	names:    []string{"scr_list_down_nodes"},
	short:    "list the job's nodes that cannot be used",
	synopsis: []string{"[-r] [-f] [-d NODES] [-l] [-s N] [-j NAME] [-v] [NODES]"},
	long: `Prints the nodes of the job, or of NODES, that cannot be used: the resource manager considers them down,
SCR_EXCLUDE_NODES names them, they do not answer, or their control and cache directories cannot be written
(scr_check_node). The command asks all nodes at the same time. If all can be used, it prints an empty line.`,
	environ: ofNodes,
	examples: `    $ SCR_EXCLUDE_NODES=atlas17 scr_list_down_nodes --reason
    atlas17: excluded by SCR_EXCLUDE_NODES`,
	see:     []string{"scr_check_node", "scr_run", "scr_should_exit"},
	takes:   true,
	lenient: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		reason := flags.BoolP("reason", "r", false, "print each on a line of its own, with the reason")
		free := flags.BoolP("free", "f", false, "require free room, not only file systems of the size")
		downList := downFlag(flags)
		log := flags.BoolP("log", "l", false, "enter each into the job's log")
		secs := flags.IntP("secs", "s", 0, "with --log: the run has taken `N` seconds")
		launcherFlag(flags)
		options := jobFlags(flags)
		f := c.facts(flags)
		return func(args []string) error {
			j, err := c.job(options)
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
			if err != nil {
				return err
			}
			if *log {
				j.LogDown(c.ctx(), down, *secs)
			}
			if f.json {
				return c.encode(down)
			}
			if *reason {
				fmt.Fprintln(c.out, strings.Join(jobrun.Reasons(down), "\n"))
			} else {
				fmt.Fprintln(c.out, hostlist.Compress(slices.Collect(maps.Keys(down))))
			}
			return nil
		}
	},
}
