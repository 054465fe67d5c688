package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestMeter(t *testing.T) {
	var terminal bytes.Buffer
	c := &context{err: &terminal}
	m := c.meterOn(&terminal, "scr_copy: node7", 0)
	m.Expect(10 << 20)
	m.Expect(10 << 20)
	m.Add(5 << 20)
	if said := terminal.String(); !regexp.MustCompile(`scr_copy: node7 +25% .*\(5\.0/20 MiB, .*iB/s\) \[.*\]`).MatchString(said) {
		t.Errorf("%q", said)
	}
	terminal.Reset()
	fmt.Fprintln(c.err, "scr_copy: a warning")
	if said := terminal.String(); !strings.HasPrefix(said, "\r") || !strings.HasSuffix(said, "\rscr_copy: a warning\n") {
		t.Errorf("%q", said)
	}
	m.end()
	terminal.Reset()
	m.Add(15 << 20)
	if terminal.Len() > 0 {
		t.Errorf("after its end: %q", terminal.String())
	}
}

// Only a terminal gets a progress bar.
func TestMeter_NoTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer f.Close()
	for _, c := range []*context{{err: f}, {err: &bytes.Buffer{}}} {
		m := c.meter("x")
		m.Expect(10)
		m.Add(5)
		m.end()
	}
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("%v, %v", info, err)
	}
}
