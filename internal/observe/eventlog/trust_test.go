package eventlog

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Where another user has put a link, or a file of the caller under a second name, nothing is appended.
func TestTextFile_OfTheCaller(t *testing.T) {
	for what, put := range map[string]func(prefix, victim string) error{
		"a link":      func(prefix, victim string) error { return os.Symlink(victim, TextFile(prefix)) },
		"a hard link": func(prefix, victim string) error { return os.Link(victim, TextFile(prefix)) },
		"a directory that is a link": func(prefix, victim string) error {
			return errors.Join(os.Rename(victim, filepath.Join(filepath.Dir(victim), "log")), os.Remove(filepath.Join(prefix, ".scr")),
				os.Symlink(filepath.Dir(victim), filepath.Join(prefix, ".scr")))
		},
	} {
		dir := t.TempDir()
		prefix, home := filepath.Join(dir, "prefix"), filepath.Join(dir, "home")
		victim := filepath.Join(home, ".profile")
		if err := errors.Join(os.MkdirAll(filepath.Join(prefix, ".scr"), 0o700), os.Mkdir(home, 0o700), os.WriteFile(victim, []byte("precious\n"), 0o600), put(prefix, victim)); err != nil {
			t.Fatal(err)
		}
		sink := textFile{TextFile(prefix), 1}
		if err := sink.Write(Record{Time: time.Now(), Type: "INIT"}); err == nil || !strings.Contains(err.Error(), prefix) {
			t.Errorf("%s: %v", what, err)
		}
		left, err := os.ReadDir(home)
		if err != nil || len(left) != 1 {
			t.Errorf("%s: %v", what, left)
		}
		if data, err := os.ReadFile(filepath.Join(home, left[0].Name())); err != nil || string(data) != "precious\n" {
			t.Errorf("%s: %q", what, data)
		}
	}
}

// A line is no command, whatever is in the names, and comes back as it was.
func TestLine_NoCommand(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	const evil = "a$(touch evil)`touch evil`\"'; touch evil;\n touch evil #\\"
	r := Record{Time: time.Unix(1e9, 0), Type: evil, Note: evil, Name: evil, Job: Job{Host: evil, ID: "x;touch${IFS}evil;"}, Run: &Run{NodeList: evil}}
	line := r.Line()
	if strings.Contains(line, "\n") {
		t.Errorf("%q has several lines", line)
	}
	cmd := exec.Command(sh, "-c", line)
	cmd.Dir = dir
	_ = cmd.Run() // the first word is no command
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("the line %s has made %v", line, made)
	}
	got, err := Parse(line)
	if err != nil || got.Note != evil || got.Name != evil || got.Type != evil || got.Job.Host != evil || got.Job.ID != r.Job.ID {
		t.Errorf("%v, %+v", err, got)
	}
}
