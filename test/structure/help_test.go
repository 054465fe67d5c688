package structure

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// internalTargets are those that other targets need, and nobody asks for.
var internalTargets = []string{"check", "FORCE"}

// make help prints the comment at the top of the Makefile. Each target that people
// can ask for is there once, in a line of its own.
func TestHelp(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var help []string // targets
	for line := range strings.Lines(string(makefile)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		if m := regexp.MustCompile(`^#   make( [a-z-]+)? {2,}\S`).FindStringSubmatch(line); m != nil {
			help = append(help, strings.TrimSpace(m[1]))
		}
		if len(line) > 130 {
			t.Errorf("%d characters are too long for a line of the help: %s", len(line), line)
		}
	}
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^\.PHONY:(.*)$`).FindAllStringSubmatch(string(makefile), -1) {
		for _, target := range strings.Fields(m[1]) {
			found++
			name := target
			if name == "all" {
				name = "" // make alone
			}
			listed := len(help)
			help = slices.DeleteFunc(help, func(h string) bool { return h == name })
			switch listed -= len(help); {
			case slices.Contains(internalTargets, target) && listed != 0:
				t.Errorf("make help has a line for %s, for which nobody asks", target)
			case !slices.Contains(internalTargets, target) && listed != 1:
				t.Errorf("make help has %d lines for %s, not one", listed, target)
			}
		}
	}
	if len(help) > 0 {
		t.Errorf("make help has lines for %q, which are no targets", help)
	}
	if found < 20 {
		t.Errorf("the Makefile has %d targets", found)
	}
}
