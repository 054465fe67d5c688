package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy"
)

var printCommand = command{
	names:    []string{"scr_print", "scr_print_hash_file", "kvtree_print"},
	short:    "print a file of goscr's own as text",
	synopsis: []string{"[--mode keyval|tree] FILE..."},
	long: `Prints the contents of a file that goscr or SCR 3.1 keeps for itself: index.scr, summary.scr, flush.scr,
filemaps and so on. Keys are sorted. Of a redundancy file, the header is printed, and how many bytes of data follow it. Under the name kvtree_print the default is one key on a line.`,
	examples: `    scr_print .scr/index.scr`,
	see:      []string{"scr_index"},
	takes:    true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		usual := "keyval"
		if flags.Name() == "kvtree_print" {
			usual = "tree"
		}
		mode := flags.StringP("mode", "m", usual, "print in the format `MODE`: tree has one key on a line; keyval has KEY = VALUE for keys with one value")
		f := c.facts(flags)
		lines := flags.Bool("tree", false, "the same as --mode tree")
		return func(args []string) error {
			if *mode != "tree" && *mode != "keyval" {
				return fmt.Errorf("--mode %s is neither tree nor keyval; %w", *mode, errUsage)
			}
			if len(args) == 0 {
				return fmt.Errorf("no file given; %w", errUsage)
			}
			all := map[string]any{}
			for _, path := range args {
				h, data, err := readHash(path)
				if err != nil {
					return err
				}
				if f.json {
					all[path] = tree(h)
					continue
				}
				if len(args) > 1 {
					fmt.Fprintf(c.out, "%s:\n", path)
				}
				show := h.PrintKV
				if *lines || *mode == "tree" {
					show = h.Print
				}
				if err := show(c.out, 0); err != nil {
					return err
				}
				if data > 0 {
					fmt.Fprintf(c.out, "%s of redundancy data follow\n", report.Bytes(data))
				}
			}
			if f.json && len(args) == 1 {
				return c.encode(all[args[0]])
			} else if f.json {
				return c.encode(all)
			}
			return nil
		}
	},
}

// readHash reads a hash file, or the header of a redundancy file and how many bytes of data follow it.
func readHash(path string) (h *hash.Hash, data int64, err error) {
	h, err = hash.ReadFile(path)
	if err == nil || !errors.Is(err, hash.ErrCorrupt) {
		return h, 0, err
	}
	r, e := redundancy.Open(path)
	if e != nil {
		return nil, 0, err // that of a hash file says more: other files are no redundancy files, either
	}
	h, data = r.Contents()
	return h, data, r.Close()
}
