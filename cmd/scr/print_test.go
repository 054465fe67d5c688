package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
)

// Of a redundancy file the header is printed. A hash file with more after it stays an error.
func TestPrint_RedundancyFile(t *testing.T) {
	c := half(t)
	set := prefix.Dir(c.Prefix(), 2)
	path := filepath.Join(set, "2_of_4_in_0.xor")
	out, _ := run(t, 0, "scr_print", path)
	for _, want := range []string{"DSET", "GROUP", "CURRENT", "BLOCKCRC = ", " of redundancy data follow"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"short":   data[:len(data)-1],
		"long":    append(bytes.Clone(data), 0),
		"changed": append(append(bytes.Clone(data[:40]), data[40]^1), data[41:]...),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, 1, "scr_print", path)
	}
	index, err := os.ReadFile(c.Path(".scr/index.scr"))
	if err != nil {
		t.Fatal(err)
	}
	longer := filepath.Join(t.TempDir(), "index.scr")
	if err := os.WriteFile(longer, append(index, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, 1, "scr_print", longer)
}
