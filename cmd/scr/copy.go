package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/scavenge"
)

var copyCommand = command{
	names: []string{"scr_copy"},
	use:   "--id ID [--cntldir DIR] [--prefix DIR] [--buf BYTES] [--crc] [--partner] [DOWN_NODE...]",
	short: "copy what this node has of a dataset to the prefix directory, after the last run",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		control := flags.String("cntldir", "", "control directory of the node (default: that of the job, from the configuration)")
		id := flags.Int("id", 0, "number of the dataset")
		dir := flags.StringP("prefix", "p", "", "prefix directory (default: $SCR_PREFIX, else the current directory)")
		buffer := flags.Int("buf", 1<<20, "bytes that are copied at a time")
		reread := flags.Bool("crc", false, "read what was copied before, and compare its checksum, instead of looking at size and time only")
		partner := flags.Bool("partner", false, "also copy what the node keeps of ranks on other nodes (PARTNER), where these have brought nothing")
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
				Control: cntl, Prefix: path, ID: *id, Buffer: *buffer, Reread: *reread, Partner: *partner, Down: args,
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

// controlDir is the control directory of a node: what the option says, else what
// the job's configuration says.
func controlDir(option string) (string, error) {
	if option != "" {
		return filepath.Abs(option)
	}
	cfg, _, err := config.Read("")
	if err != nil {
		return "", err
	}
	return filepath.Join(cfg.CntlBase, cfg.UserName, "scr."+cfg.JobID), nil
}

// nodeName is the node as messages name it.
func nodeName() string {
	if cfg, _, err := config.Read(""); err == nil {
		return cfg.NodeName
	}
	name, _ := os.Hostname() // "" if it has none
	return name
}
