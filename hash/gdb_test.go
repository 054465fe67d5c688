package hash_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gdb prints a hash as a tree, and refuses what is none.
func TestGDB(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip("gdb is not installed")
	}
	if out, err := exec.Command("gdb", "-nx", "-batch", "-ex", "python print(6 * 7)").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "42" {
		t.Skipf("gdb has no Python here: %v\n%s", err, out)
	}
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-gcflags=all=-N -l", "-o", program, "./testdata/gdb")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("gdb", "-nx", "-batch", "-ex", "source ../bindings/gdb/goscr.py", "-ex", "break main.stop", "-ex", "run",
		"-ex", "up", "-ex", "echo tree\\n", "-ex", "scr-hash h", "-ex", "echo none\\n", "-ex", "scr-hash none", "-ex", "echo number\\n", "-ex", "scr-hash number",
		"-ex", "kill", program).CombinedOutput()
	if strings.Contains(string(out), "ptrace: Operation not permitted") {
		t.Skipf("ptrace is not permitted here\n%s", out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, got, _ := strings.Cut(string(out), "tree\n")
	want := `FILES = 2
RANK
  0
  1
    FILE = a b
    SIZE = 3
none
number
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s\nall\n%s", got, want, out)
	}
	if !strings.Contains(got, "number is of the type int, not a hash") {
		t.Errorf("a number is no hash, but gdb says\n%s", got)
	}
}
