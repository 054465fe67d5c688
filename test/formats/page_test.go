package formats

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/formats.md names files of the source that are there, and every version and
// kind of the corpus stands in the pages that tell of them.
func TestPages(t *testing.T) {
	const root = "../.."
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		must(t, err)
		return string(text)
	}
	page, readme := read("docs/formats.md"), read("testdata/README.md")
	for _, file := range regexp.MustCompile("`([a-z0-9/]+\\.go)`").FindAllStringSubmatch(page, -1) {
		if !exists(t, filepath.Join(root, file[1])) {
			t.Errorf("docs/formats.md speaks of %s, which is not there", file[1])
		}
	}
	for _, version := range versions(t) {
		if !strings.Contains(readme, "| "+version+" |") {
			t.Errorf("testdata/README.md does not say how %s was made", version)
		}
		if strings.HasPrefix(version, "goscr-") && !strings.Contains(page, "| "+version+" |") {
			t.Errorf("docs/formats.md does not say what is new in %s", version)
		}
		for _, kind := range kinds(t, version) {
			if !strings.HasPrefix(version, "goscr-") && !strings.Contains(readme, "| "+version+" | "+kind+" |") {
				t.Errorf("testdata/README.md does not say how %s/%s was made", version, kind)
			}
		}
	}
}
