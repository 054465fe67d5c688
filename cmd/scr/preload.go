package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/job/batch"
	jobrun "github.com/goscr/goscr/internal/job/run"
	"github.com/goscr/goscr/internal/node/preload"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

var preloadCommand = command{
	names:    []string{"scr_preload"},
	short:    "copy files of a checkpoint from the prefix directory to the cache of this node, before a job starts",
	synopsis: []string{"--id ID --cache DIR --store DIR [--prefix DIR] [--cntldir DIR]"},
	long: `scr_restart --preload calls this on all nodes at the same time. It copies the files of the ranks that
.scr/preload.scr names for this node, and enters them in a filemap, where the job finds them. The command needs no MPI.`,
	environ: append(append([]string{}, ofPrefix...), ofControl...),
	files:   []file{{".scr/preload.scr", "which node is to copy the files of which ranks"}},
	see:     []string{"scr_restart", "scr_copy"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		id := flags.IntP("id", "i", 0, "copy dataset `ID`")
		cacheDir := flags.String("cache", "", "directory `DIR` for the datasets of the job on this node")
		store := flags.String("store", "", "... and the store `DIR` to which it belongs")
		dir := prefixFlag(flags)
		control := controlFlag(flags)
		return func([]string) error {
			if *id < 1 || *cacheDir == "" || *store == "" {
				return fmt.Errorf("--id, --cache and --store are needed; %w", errUsage)
			}
			cfg, err := c.config("scr_preload", *dir)
			if err != nil {
				return err
			}
			n := preload.Node{Prefix: cfg.Prefix, Cache: *cacheDir, Base: *store, Piece: int(cfg.FileBufSize)}
			if n.Control, err = controlDir(*control); err != nil {
				return err
			}
			ranks, size, err := jobrun.ToPreload(n.Prefix, cfg.NodeName)
			if err != nil {
				return err
			}
			done, err := n.Load(*id, ranks, size)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, jobrun.Preloaded+"\n", done.Bytes)
			return nil
		}
	},
}

// preload copies a checkpoint to the caches of the nodes on which a job is about to start. If
// that is not possible the job fetches the checkpoint itself, so it is only told.
func (c *context) preload(s snapshot.Snapshot, r *snapshot.Record, command *snapshot.Command, to snapshot.Restart) {
	if err := c.tryPreload(s, r, command, to); err != nil {
		fmt.Fprintf(c.err, "scr_restart: not all files are in the caches of the nodes, so the job fetches the missing ones: %s\n", oneLine(err))
	}
}

func (c *context) tryPreload(s snapshot.Snapshot, r *snapshot.Record, command *snapshot.Command, to snapshot.Restart) error {
	x, err := prefix.ReadIndex(to.Prefix)
	if err != nil {
		return err
	}
	if err := preload.Fits(x.ByID(s.Seq)); err != nil {
		return err
	}
	// The parameters of the job that is about to start.
	for _, v := range command.Env {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "SCR_") {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	j, err := c.openJob(to.Prefix)
	if err != nil {
		return err
	}
	if cfg := j.Config; cfg.CacheBypass || cfg.FetchBypass || cfg.GlobalRestart || !cfg.Distribute || !cfg.Enable {
		return errors.New("the program is to read checkpoints where they are")
	}
	id := j.Config.JobID
	if r.Runner != nil { // scr_run tells the program
		if id, err = j.ID(c.ctx()); err != nil {
			return err
		}
	}
	var slots map[string]int
	var nodes []string
	if file := cmp.Or(to.HostFile, j.Config.HostFile); file != "" {
		nodes, slots, err = batch.Hosts(file)
	} else {
		nodes, err = j.Nodes(c.ctx())
	}
	if err != nil {
		return err
	}
	down, err := j.Down(c.ctx(), nodes, nil, false)
	if err != nil {
		return err
	}
	var up []string
	for _, n := range nodes {
		if down[n] == "" {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		return errors.New("no node is up")
	}
	return j.Preload(c.ctx(), s, r, up, slots, id)
}
