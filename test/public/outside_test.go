package public

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Another module compiles with all public packages, and its program restarts from a
// checkpoint after it was killed and one of its nodes was lost.
func TestOutside(t *testing.T) {
	program := build(t)
	undisturbed := run(t, program, t.TempDir(), "0", 0)

	dir := t.TempDir()
	if out := run(t, program, dir, "37", 3); out != "from step 0\n" {
		t.Errorf("the run that was killed printed %q", out)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "node2")))
	out := run(t, program, dir, "0", 0)
	if want := strings.Replace(undisturbed, "from step 0", "from step 30", 1); out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// build compiles the program of testdata/outside in a directory outside this module, with
// the module cache and without a network, and returns its path.
func build(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/outside")))
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666))
	requires, err := os.ReadFile(filepath.Join(root, "go.mod"))
	must(t, err)
	mod := regexp.MustCompile(`(?m)^module .*`).ReplaceAllString(string(requires), "module example.org/outside")
	mod += "\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666))

	cmd := exec.Command("go", "build", "-o", "program", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "program")
}

// run runs the program, which must end with this status, and returns its output.
func run(t *testing.T, program, dir, kill string, status int) string {
	t.Helper()
	cmd := exec.Command(program, dir, kill)
	cmd.Dir = dir
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("ends with status %d, want %d\n%s%s", got, status, out, errors.String())
	}
	return string(out)
}
