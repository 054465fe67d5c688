package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/observe/report"
)

var copyCommand = command{
	names:    []string{"scr_copy"},
	short:    "copy this node's files of a dataset to the prefix directory, after the last run",
	synopsis: []string{"--id ID [--cntldir DIR] [--prefix DIR] [--buf BYTES] [--crc] [--partner] [DOWN_NODE...]"},
	long: `Run this on each node that is up. It copies the files of the node's ranks, and the redundancy that they store
for others, and writes a list of them for each rank. scr_index --build makes a usable dataset of these files.
The command needs no MPI.

The command compares checksums while it copies. It does not copy a file that is corrupt in the cache; the rank
of this file counts as lost. A file gets its name when all of it is on the medium, so the command can
run beside a background flush, be killed, and be run again.

With PARTNER this node has copies of the files of ranks on other nodes; for each of these nodes it prints a
line "scr_copy: NODE: Partner: OTHER". DOWN_NODE are nodes that are down: the command copies the copies of their ranks' files
as with --partner, without waiting for these nodes.`,
	exit:    status{done: "All files of the node are in the prefix directory.", failed: "Some files could not be copied; all others were."},
	environ: slices.Concat(ofPrefix, ofControl),
	files:   []file{{".scr/scr.dataset.ID/RANK.scrfilemap", "the list of a rank's files"}},
	examples: `On each node that is left, and then anywhere:

    scr_copy --id 12 --prefix /p/run7
    scr_index --prefix /p/run7 --build 12`,
	see:   []string{"scr_index", "scr_flush_file", "scr_inspect_cache", "scr_postrun"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		id := flags.IntP("id", "i", 0, "copy dataset `ID`; scr_flush_file --list-ckpt lists the numbers")
		control := controlFlag(flags)
		dir := prefixFlag(flags)
		alias(flags, "prefix", "dir", "d")
		buffer := sizeFlag(flags, "buf", "b", 1<<20, "copy `BYTES` at a time, such as 65536 or 64k")
		reread := flags.BoolP("crc", "r", false, "read files that were copied before and compare their checksums; without it, only their sizes and times are compared")
		partner := flags.Bool("partner", false, "also copy files of ranks on other nodes that have copied nothing, if this node has copies of them (PARTNER) or if all nodes share the storage (GROUP=WORLD); call it after all nodes have run scr_copy")
		return func(args []string) error {
			if *id < 1 {
				return fmt.Errorf("--id takes the number of a dataset, from 1 on; %w", errUsage)
			}
			if *buffer < 1 || *buffer > 1<<30 {
				return fmt.Errorf("--buf takes a number of bytes, from 1 to %d; %w", 1<<30, errUsage)
			}
			path, err := prefixDir(*dir)
			if err != nil {
				return err
			}
			cntl, err := controlDir(*control)
			if err != nil {
				return err
			}
			node := nodeName()
			meter := c.meter("scr_copy: " + node)
			done, err := (&scavenge.Copy{
				Control: cntl, Prefix: path, ID: *id, Buffer: int(*buffer), Reread: *reread, Partner: *partner, Down: args,
				Progress: meter, Warn: c.warn("scr_copy: " + node),
			}).Run()
			meter.end()
			for _, other := range done.Partners {
				fmt.Fprintf(c.out, "scr_copy: %s: Partner: %s\n", node, printable(other))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", node, err)
			}
			if done.There {
				fmt.Fprintf(c.out, "scr_copy: %s: dataset %d is complete in %s\n", node, *id, path)
				return nil
			}
			fmt.Fprintf(c.out, "scr_copy: %s: dataset %d: ranks %v: %s copied, %s; %d were there\n",
				node, *id, done.Ranks, report.Count(done.Files, "file"), report.Bytes(done.Bytes), done.Kept)
			return nil
		}
	},
}
