package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/trust"
)

const other = 65533

// What another user has left in the prefix directory runs no command of the caller's: the file
// counts as one that does not exist, and one line says so and how to accept it.
func TestLoad_FilesOfOthers(t *testing.T) {
	useSystemFile(t, "")
	type change func(path string) error
	owned := func(path string) error { return os.Chown(path, other, other) }
	for what, c := range map[string]struct {
		change  change
		root    bool
		accepts string // SCR_TRUST_USERS
		counts  bool
	}{
		"own":                             {func(string) error { return nil }, false, "", true},
		"another's":                       {owned, true, "", false},
		"another's, who is trusted":       {owned, true, "1, 65533", true},
		"another's, one is trusted":       {owned, true, "1", false},
		"everybody can write to it":       {func(path string) error { return os.Chmod(path, 0o666) }, false, "", false},
		"a group can write to it":         {func(path string) error { return errors.Join(os.Chown(path, 0, other), os.Chmod(path, 0o664)) }, true, "", false},
		"a link of another user":          {linked(other), true, "", false},
		"a link of one's own":             {linked(0), true, "", true},
		"a device, as /dev/null":          {func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/null", path)) }, false, "", true},
		"another's, a pipe":               {piped, true, "", false},
		"not there":                       {os.Remove, false, "", true},
		"another's, who is not reachable": {func(path string) error { return errors.Join(owned(path), os.Chmod(path, 0)) }, true, "", false},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
		for _, name := range []string{".scrconf", ".scr/app.conf"} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			writeFile(t, path, "SCR_PREDICT_COMMAND=evil\nSCR_TRUST_USERS=65533\n")
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			vars := env("SCR_PREFIX="+dir, "SCR_TRUST_USERS="+c.accepts)
			t.Setenv("SCR_PREFIX", dir)
			t.Setenv("SCR_TRUST_USERS", c.accepts)
			read := func() (*Config, []string, error) { return Load(nil, &Settings{Environ: vars}, nil) }
			if name != ".scrconf" {
				read = func() (*Config, []string, error) { return Read("") }
			}
			cfg, warnings, err := read()
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			empty := strings.HasPrefix(what, "not") || strings.HasPrefix(what, "a device")
			if got := cfg.PredictCommand == "evil"; got != (c.counts && !empty) {
				t.Errorf("%s, %s: the command is %q", name, what, cfg.PredictCommand)
			}
			if lines := len(cfg.Ignored); (lines == 1) == c.counts || lines == 1 && !strings.Contains(strings.Join(warnings, "\n"), cfg.Ignored[0]) {
				t.Errorf("%s, %s: %q, warnings %q", name, what, cfg.Ignored, warnings)
			}
			if cfg.TrustUsers != c.accepts && (name == ".scrconf" || !c.counts) {
				t.Errorf("%s, %s: the file says %q of itself", name, what, cfg.TrustUsers)
			}
		}
	}
}

// linked replaces a file by a link to it.
func linked(owner int) func(path string) error {
	return func(path string) error {
		return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path), os.Lchown(path, owner, owner))
	}
}

func piped(path string) error {
	return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600), os.Chown(path, other, other))
}

// The system's file belongs to who has installed goscr, and may name users.
func TestLoad_SystemFileCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	useSystemFile(t, "SCR_TRUST_USERS=65533\n")
	if err := os.Chown(systemFile(), 12, 12); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, ".scrconf")
	writeFile(t, path, "SCR_RUNS=7\n")
	if err := os.Chown(path, other, other); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(nil, &Settings{Environ: env("SCR_PREFIX=" + dir)}, nil)
	if err != nil || cfg.Runs != 7 || len(cfg.Ignored) > 0 {
		t.Errorf("%v %+v", err, cfg.Ignored)
	}
	if _, _, err := Load(nil, &Settings{Environ: env("SCR_PREFIX="+dir, trust.Parameter+"=nobody-of-this-name")}, nil); err == nil || !strings.Contains(err.Error(), trust.Parameter) {
		t.Errorf("%v", err)
	}
}
