package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/test/promised"
)

// Names of commands, and their options.
func TestPromise_Options(t *testing.T) {
	var lines []string
	for _, c := range commands {
		for _, name := range c.names {
			lines = append(lines, name)
			c.flags().VisitAll(func(f *pflag.Flag) {
				line := fmt.Sprintf("%s --%s %s", name, f.Name, f.Value.Type())
				if f.Shorthand != "" {
					line += " -" + f.Shorthand
				}
				lines = append(lines, line)
			})
		}
	}
	promised.Compare(t, "options", lines)
}

// Keys of what --json prints.
func TestPromise_JSON(t *testing.T) {
	tag := regexp.MustCompile(`json:"([a-z_0-9]+)`)
	var lines []string
	for _, dir := range []string{".", "../../internal"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range tag.FindAllStringSubmatch(string(text), -1) {
				lines = append(lines, match[1])
			}
			return err
		})
		must(t, err)
	}
	promised.Compare(t, "json", lines)
}
