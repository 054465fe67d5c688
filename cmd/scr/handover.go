package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	jobrun "github.com/goscr/goscr/internal/job/run"
	"github.com/goscr/goscr/internal/node/handover"
)

var handoverCommand = command{
	names:    []string{"scr_handover"},
	short:    "copy files of ranks from the cache of one node to the cache of another",
	synopsis: []string{"--id ID --send RANKS --offer FILE --cache DIRS [--cntldir DIR]", "--id ID --receive --offer FILE --cache DIRS [--cntldir DIR]"},
	long: `scr_run calls this on two nodes at the same time, for a migration off a node on which no rank will run. The
sender listens at any free port, and writes its addresses and a key to FILE, which both nodes see; the
receiver connects to it. The receiver enters the files in a filemap of its node, where the next run finds them. They
also stay on the sender's node. The command needs no MPI.`,
	environ: ofControl,
	files:   []file{{".scr/handover.N", "the addresses of a sender, while it waits"}},
	see:     []string{"scr_migrate", "scr_run", "scr_copy"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		id := flags.IntP("id", "i", 0, "copy dataset `ID`")
		ranks := flags.String("send", "", "send the files of `RANKS`, separated by commas")
		receive := flags.Bool("receive", false, "receive the files that the other node sends")
		offer := flags.String("offer", "", "`FILE` in the prefix directory by which the two nodes find each other")
		caches := flags.String("cache", "", "directories `DIRS` with the datasets of the job, separated by commas, in the same order on both nodes")
		control := controlFlag(flags)
		return func([]string) error {
			if *id < 1 || *offer == "" || *caches == "" || (*ranks == "") != *receive {
				return fmt.Errorf("--id, --offer, --cache and one of --send and --receive are needed; %w", errUsage)
			}
			list, err := rankList(*ranks)
			if err != nil {
				return fmt.Errorf("--send: %w; %w", err, errUsage)
			}
			dir, err := controlDir(*control)
			if err != nil {
				return err
			}
			n := handover.Node{Control: dir, Caches: strings.Split(*caches, ","), Offer: *offer}
			var done handover.Done
			if *receive {
				done, err = n.Receive(*id)
			} else {
				done, err = n.Send(*id, list)
			}
			if err != nil {
				return err
			}
			for _, r := range done.Ranks {
				fmt.Fprintf(c.out, jobrun.HandedOver+"\n", r, done.Bytes[r])
			}
			return nil
		}
	},
}

// rankList reads ranks that are separated by commas, such as 0,4-7.
func rankList(text string) (ranks []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		const most = 1 << 24 // more ranks than any job has
		if err1 != nil || err2 != nil || first < 0 || last < first || last > most {
			return nil, fmt.Errorf("%q is not a list of ranks, such as 0,4-7", text)
		}
		for r := first; r <= last; r++ {
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}
