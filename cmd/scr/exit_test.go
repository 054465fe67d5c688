package main

import (
	"os"
	"strings"
	"testing"
)

// docs/commands.md has the exit status of each command, as its help has it.
func TestCommands_ExitStatusInThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands.md")
	must(t, err)
	if !strings.Contains(string(page), "\n"+exitTable()) {
		t.Errorf("docs/commands.md has another table of exit statuses than\n%s", exitTable())
	}
}

// exitTable is a line for all commands with the same texts.
func exitTable() string {
	var b strings.Builder
	done := map[string]bool{}
	for _, c := range commands {
		texts := c.exit.texts()
		row := " | " + tidy(texts[0]) + " | " + tidy(texts[1]) + " |\n"
		if c.exit.intro != "" {
			row = " | " + tidy(c.exit.intro+" "+texts[0]) + " | " + tidy(texts[1]) + " |\n"
		}
		if done[row] {
			continue
		}
		done[row] = true
		var names []string
		for _, other := range commands {
			if other.exit == c.exit {
				for _, name := range other.names {
					names = append(names, "`"+name+"`")
				}
			}
		}
		b.WriteString("| " + strings.Join(names, ", ") + row)
	}
	return b.String()
}

func tidy(text string) string { return strings.Join(strings.Fields(text), " ") }
