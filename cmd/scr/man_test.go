package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const manDir = "../../docs/man"

// manPage is a page as somebody reads it, without its markup.
func manPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(manDir, name+".1"))
	if err != nil {
		t.Errorf("%s has no man page: %v", name, err)
		return ""
	}
	if target, ok := strings.CutPrefix(string(data), ".so man1/"); ok {
		return manPage(t, strings.TrimSuffix(strings.TrimSpace(target), ".1"))
	}
	return strings.ReplaceAll(string(data), `\-`, "-")
}

// Every command that is installed has a page, which names all its options and no
// others.
func TestManPages(t *testing.T) {
	pages := map[string]bool{"scr.1": true}
	if !strings.Contains(manPage(t, "scr"), ".SH SYNOPSIS") {
		t.Error("scr has no man page")
	}
	for _, command := range commands {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		command.run(&context{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}, flags)
		for _, name := range command.names {
			pages[name+".1"] = true
			page := manPage(t, name)
			_, options, _ := strings.Cut(page, ".SH OPTIONS\n")
			options, _, _ = strings.Cut(options, ".SH ")
			flags.VisitAll(func(f *pflag.Flag) {
				if !strings.Contains(options+" ", "--"+f.Name) || f.Shorthand != "" && !strings.Contains(options, "-"+f.Shorthand+", --"+f.Name) {
					t.Errorf("the man page of %s does not say what --%s (-%s) is", name, f.Name, f.Shorthand)
				}
			})
			for line := range strings.Lines(options) {
				for _, word := range strings.FieldsFunc(strings.TrimPrefix(line, ".B "), func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }) {
					if option, ok := strings.CutPrefix(word, "--"); ok && strings.HasPrefix(line, ".B ") && flags.Lookup(option) == nil {
						t.Errorf("the man page of %s has --%s, which there is not", name, option)
					}
				}
			}
			if !strings.Contains(page, ".SH EXIT STATUS") || !strings.Contains(page, "\n"+command.names[0]+` - `+command.short+"\n") {
				t.Errorf("the man page of %s has another name or summary, or does not say how it ends", name)
			}
		}
	}
	entries, err := os.ReadDir(manDir)
	must(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".1" && !pages[e.Name()] {
			t.Errorf("%s is of no command", e.Name())
		}
	}
}
