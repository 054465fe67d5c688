package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/hash"
)

// facts is how a command prints what it has found: as text, or with --json as one JSON
// value, for programs.
type facts struct {
	*context
	json bool
}

// facts is the option of commands that print facts.
func (c *context) facts(flags *pflag.FlagSet) *facts {
	f := &facts{context: c}
	flags.BoolVar(&f.json, "json", false, "write JSON")
	return f
}

// say prints a value as JSON, or one line of text.
func (f *facts) say(value any, line string) error {
	if f.json {
		return f.encode(value)
	}
	_, err := fmt.Fprintln(f.out, line)
	return err
}

// tree is a hash as JSON has it: an object for each level.
func tree(h *hash.Hash) map[string]any {
	object := map[string]any{}
	for key, child := range h.All() {
		if value, ok := h.Value(key); ok && child.Get(value).Size() == 0 {
			object[key] = value
		} else {
			object[key] = tree(child)
		}
	}
	return object
}
