package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/hash"
)

var printCommand = command{
	names:    []string{"scr_print", "scr_print_hash_file"},
	short:    "print files of goscr's own as text",
	synopsis: []string{"[--tree] FILE..."},
	long: `Prints the contents of a file that goscr or SCR 3.1 keeps for itself: index.scr, summary.scr, flush.scr,
filemaps and so on.`,
	examples: `    scr_print .scr/index.scr`,
	see:      []string{"scr_index"},
	takes:    true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		tree := flags.Bool("tree", false, "print one key a line, instead of KEY = VALUE")
		return func(args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("no file given; %w", errUsage)
			}
			for _, path := range args {
				h, err := hash.ReadFile(path)
				if err != nil {
					return err
				}
				if len(args) > 1 {
					fmt.Fprintf(c.out, "%s:\n", path)
				}
				show := h.PrintKV
				if *tree {
					show = h.Print
				}
				if err := show(c.out, 0); err != nil {
					return err
				}
			}
			return nil
		}
	},
}
