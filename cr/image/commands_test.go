package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNew(t *testing.T) {
	for _, c := range []struct{ dump, restore, wrong string }{
		{"save %p %d", "load %d %i", ""},
		{"criu", "", ""},
		{"", "load %d %i", "SCR_CR_IMAGE has no value"},
		{"save %p", "", "SCR_CR_IMAGE_RESTORE has no value"},
		{"save %d", "load %d %i", `SCR_CR_IMAGE: "save %d" has no %p`},
		{"save %%p %d", "load %d %i", "has no %p"},
		{"save %p %d", "load %d", `SCR_CR_IMAGE_RESTORE: "load %d" has no %i`},
		{"save %p %x", "load %d %i", "SCR_CR_IMAGE: \"save %p %x\" has %x; known are"},
		{"save %p %", "load %d %i", "ends with %"},
	} {
		_, err := New(c.dump, c.restore, time.Second)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q, %q: %v, want %q", c.dump, c.restore, err, c.wrong)
		}
	}
	c, err := New(" criu ", "", 0)
	if err != nil || !strings.HasPrefix(c.Dump, "criu dump ") || !strings.HasPrefix(c.Restore, "criu restore ") {
		t.Error(c, err)
	}
}

func TestExpand(t *testing.T) {
	got, err := expand("a %p %d/x %i 100%%", 7, "/it's here", "/i")
	if want := `a 7 '/it'\''s here'/x '/i' 100%`; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// tool makes a command of a name, and has it found.
func tool(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestCheck(t *testing.T) {
	check := func(dump string) error {
		c, err := New(dump, "load %d %i", time.Second)
		if strings.TrimSpace(dump) == "criu" {
			c, err = New(dump, "", time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c.Check(t.Context())
	}
	t.Run("works", func(t *testing.T) {
		tool(t, "criu", `test "$*" = check && echo Looks good.`)
		if err := check("criu"); err != nil {
			t.Error(err)
		}
	})
	t.Run("kernel", func(t *testing.T) { // what CRIU 3.17.1 prints on Linux 6.18
		tool(t, "criu", `cat >&2 <<'X'
Error (criu/util.c:642): exited, status=1
Error (criu/util.c:642): exited, status=1
Error (criu/vdso.c:381): vdso: Unexpected rt vDSO area bounds
Error (criu/crtools.c:260): Could not initialize kernel features detection.
X
exit 1`)
		for _, dump := range []string{"criu", "criu dump -t %p -D %d"} {
			err := check(dump)
			want := "CRIU does not work on this kernel: criu check: exit status 1: Error (criu/vdso.c:381): vdso: Unexpected rt vDSO area bounds"
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
	t.Run("missing", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		for _, dump := range []string{"criu", "dmtcp_command -bc # %p"} {
			if err := check(dump); err == nil || !strings.Contains(err.Error(), "cannot be used: ") || !strings.Contains(err.Error(), "executable file not found") {
				t.Error(dump, err)
			}
		}
		if err := check("any thing %p"); err != nil {
			t.Error(err)
		}
	})
}
