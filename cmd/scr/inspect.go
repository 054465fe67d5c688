package main

import (
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

var inspectCacheCommand = command{
	names:    []string{"scr_inspect_cache"},
	short:    "list the datasets in the cache of this node",
	synopsis: []string{"[--cntldir DIR] [--json]"},
	long: `One line for each rank and dataset: DSET, the number of the dataset; RANK of RANKS; FILES: the number of files that the rank wrote;
SIZE: the size of all files with redundancy; TYPE: the redundancy scheme; PROTECTED: whether its redundancy is there; WHOLE: whether all
files that the rank wrote are there, by their sizes; NAME. With SCR_ENCODE_ASYNC=1 a dataset is whole before it is protected.`,
	exit:    status{done: "Something is there, and could be listed.", failed: "Nothing is there, or failed; then a line on standard error says why."},
	environ: ofControl,
	files:   []file{{"filemap_*.scrinfo", "the filemaps, in the control directory"}},
	see:     []string{"scr_copy"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		control := controlFlag(flags)
		asJSON := flags.Bool("json", false, "write JSON")
		return func([]string) error {
			dir, err := controlDir(*control)
			if err != nil {
				return err
			}
			maps, bad, err := filemap.ReadDir(dir)
			if errors.Is(err, fs.ErrNotExist) {
				return scavenge.NoControl(err)
			}
			if err != nil {
				return err
			}
			for _, e := range bad {
				c.warn("scr_inspect_cache")(e)
			}
			list := inspect(maps)
			if *asJSON {
				err = c.encode(list)
			} else {
				err = c.showCache(list)
			}
			switch {
			case err != nil:
				return err
			case len(bad) > 0:
				return fmt.Errorf("%d filemaps in %s cannot be read", len(bad), dir)
			case len(list) == 0:
				return errNo
			}
			return nil
		}
	},
}

// cachedPart describes one rank's part of a dataset on a node.
type cachedPart struct {
	ID        int    `json:"id"`
	Name      string `json:"name"`
	Rank      int    `json:"rank"`
	Ranks     int    `json:"ranks"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	Scheme    string `json:"scheme"`
	Protected bool   `json:"protected"`
	Whole     bool   `json:"whole"`
	Why       string `json:"why,omitempty"` // it is not whole, or not protected
}

func inspect(maps *filemap.Map) []cachedPart {
	list := []cachedPart{}
	for _, id := range maps.Datasets() {
		for _, rank := range maps.Ranks(id) {
			expected, ranks := maps.Expected(id, rank)
			paths := maps.Files(id, rank)
			if expected < 0 && len(paths) == 0 {
				continue // a description kept for a rank on another node
			}
			p := cachedPart{ID: id, Name: maps.Dataset(id, rank).Name(), Rank: rank, Ranks: ranks}
			desc := reddesc.FromHash(maps.Reddesc(id, rank))
			if desc != nil {
				p.Scheme = desc.Type
			}
			for _, path := range paths {
				md := maps.Meta(id, rank, path)
				p.Bytes += max(md.Size(), 0)
				if md.Type() == meta.Full {
					p.Files++
				}
			}
			err := maps.CheckData(id, rank, desc.Made())
			if err == nil && !maps.Dataset(id, rank).Complete() {
				err = fmt.Errorf("the dataset was not completed")
			}
			if p.Whole = err == nil; p.Whole && desc.Made() != 0 { // SINGLE has no redundancy
				if err = maps.Check(id, rank); err != nil {
					err = fmt.Errorf("it is whole, but not protected: %w", err)
				}
				p.Protected = err == nil
			}
			if err != nil {
				p.Why = err.Error()
			}
			list = append(list, p)
		}
	}
	return list
}

func (c *context) showCache(list []cachedPart) error {
	if len(list) == 0 {
		fmt.Fprintln(c.err, "the cache of this node is empty")
		return nil
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DSET\tRANK\tRANKS\tFILES\tSIZE\tTYPE\tPROTECTED\tWHOLE\tNAME")
	for _, p := range list {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", p.ID, p.Rank, p.Ranks, p.Files, report.Bytes(p.Bytes),
			printable(p.Scheme), yesNo(p.Protected), yesNo(p.Whole), printable(p.Name))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range list {
		if p.Why != "" {
			fmt.Fprintf(c.err, "dataset %d, rank %d: %s\n", p.ID, p.Rank, oneLine(fmt.Errorf("%s", p.Why)))
		}
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}
