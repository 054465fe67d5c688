package main

import (
	"strings"
	"testing"
)

func TestManPages(t *testing.T) {
	links, _ := run(t, 0, "scr", "links")
	for _, name := range strings.Fields(links) {
		page, _ := run(t, 0, "scr", "man", name)
		help, _ := run(t, 0, name, "--help")
		for _, want := range []string{".TH " + strings.ToUpper(name) + " 1", ".SH NAME\n" + name + ` \- `, ".SH SYNOPSIS", ".SH EXIT STATUS"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
		for line := range strings.Lines(help) {
			if option, ok := strings.CutPrefix(strings.TrimSpace(line), "--"); ok {
				option, _, _ = strings.Cut(option, " ")
				if !strings.Contains(page, roff("--"+option)) {
					t.Errorf("%s: nothing on --%s", name, option)
				}
			}
		}
	}
	run(t, 2, "scr", "man", "nothing")
	if got := roff(`.a-b\c`); got != `\&.a\-b\ec` {
		t.Error(got)
	}
}
