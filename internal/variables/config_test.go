package variables

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := "scratch = " + dir + "\npersistent=" + dir + " ; the parallel file system\n# comment\n\n[section]\n"
	for _, c := range []struct {
		text, env string
		set       map[string]string // besides the directories
		says      []string          // a word of each line
		fails     string
	}{
		{text: "", set: map[string]string{"SCR_FLUSH": "1"}},
		{text: "MODE = Async\n", set: map[string]string{"SCR_FLUSH": "1", "SCR_ENCODE_ASYNC": "1", "SCR_FLUSH_ASYNC": "1"}},
		{text: "mode = async\n", env: "VELOC_MODE=sync", set: map[string]string{"SCR_FLUSH": "1"}},
		{text: "persistent_interval = -1\nec_interval = -1\n", set: map[string]string{"SCR_FLUSH": "0", "SCR_COPY_TYPE": "SINGLE"}},
		{text: "persistent_interval = 60\nec_interval = 7\n", set: map[string]string{"SCR_FLUSH": "1"}, says: []string{"ec_interval", "persistent_interval"}},
		{text: "max_versions = 4\nscratch_versions=2\n", set: map[string]string{"SCR_FLUSH": "1", "SCR_PREFIX_SIZE": "4", "SCR_CACHE_SIZE": "2"}},
		{text: "max_versions = 0\nscratch_versions = 0\n", set: map[string]string{"SCR_FLUSH": "1", "SCR_CACHE_SIZE": keepAll}},
		{text: "chksum = true\nmeta = /m\nnew_key = 1\n", set: map[string]string{"SCR_FLUSH": "1"}, says: []string{"meta", "new_key"}},
		{text: "mode = both\n", fails: "mode = both"},
		{text: "max_versions = many\n", fails: "max_versions = many"},
		{text: "scratch\n", fails: "line 6"},
		{text: "scratch = /does/not/exist\n", fails: "/does/not/exist"},
		{text: "persistent = /dev/null\n", fails: "no directory"},
		{text: "scratch =\n", fails: "no directory scratch"},
	} {
		path := filepath.Join(t.TempDir(), "cfg")
		if err := os.WriteFile(path, []byte(base+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadConfig(path, func(name string) (string, bool) {
			key, value, _ := strings.Cut(c.env, "=")
			return value, key == name
		})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		want := maps.Clone(c.set)
		want["SCR_PREFIX"], want["SCR_CACHE_BASE"] = dir, dir
		if !maps.Equal(got.Parameters, want) {
			t.Errorf("%q: %v, want %v", c.text, got.Parameters, want)
		}
		if !slices.EqualFunc(got.Ignored, c.says, strings.Contains) {
			t.Errorf("%q: %q", c.text, got.Ignored)
		}
	}
	if _, err := ReadConfig(filepath.Join(dir, "none"), os.LookupEnv); err == nil {
		t.Error("a file that is not there")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a = b\n; c\n")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for key, value := range values {
			if key != strings.TrimSpace(key) || value != strings.TrimSpace(value) || strings.Contains(key+value, "\n") {
				t.Errorf("%q = %q", key, value)
			}
		}
	})
}
