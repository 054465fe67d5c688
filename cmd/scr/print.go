package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/hash"
)

var printCommand = command{
	names: []string{"scr_print", "scr_print_hash_file"},
	use:   "FILE...",
	short: "print files of goscr's own as text",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		tree := flags.Bool("tree", false, "one key a line, instead of KEY = VALUE")
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
