// Package promised compares what others see of goscr (functions, options, parameters, keys
// of JSON) with the lists in test/promised/testdata. docs/upgrade.md promises that no line leaves these lists
// in version 1, so that programs and scripts keep working.
package promised

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Compare fails the test unless lines are those of test/promised/testdata/name, in any order. A line
// that is missing breaks the promise; one that is new has to be added to the list, which
// GOSCR_PROMISE=1 in the environment does.
func Compare(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join(root(t), "test/promised/testdata", name)
	text, err := os.ReadFile(path)
	if err != nil && os.Getenv("GOSCR_PROMISE") != "1" {
		t.Fatal(err)
	}
	gone, added := Differences(strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), lines)
	for _, line := range gone {
		t.Errorf("promised until version 2 (test/promised/testdata/%s), and gone: %s", name, line)
	}
	if len(added) == 0 {
		return
	}
	if os.Getenv("GOSCR_PROMISE") != "1" {
		t.Errorf("GOSCR_PROMISE=1 go test adds to test/promised/testdata/%s, and so promises until version 2:\n%s", name, strings.Join(added, "\n"))
		return
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(added, strings.Split(strings.TrimSpace(string(text)), "\n")))))
	all = slices.DeleteFunc(all, func(line string) bool { return line == "" })
	if err := os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Differences returns the lines that are only promised, and those that are only there.
func Differences(promised, there []string) (gone, added []string) {
	for _, line := range promised {
		if !slices.Contains(there, line) {
			gone = append(gone, line)
		}
	}
	for _, line := range slices.Compact(slices.Sorted(slices.Values(there))) {
		if !slices.Contains(promised, line) {
			added = append(added, line)
		}
	}
	return gone, added
}

// root returns the top directory of the sources: the nearest with go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no directory has go.mod: %v", err)
	return ""
}
