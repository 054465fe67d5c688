package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Go obeys the linker's flag in the Makefile that docs/go-runtime.md describes. The linker
// ignores a flag for a variable that the runtime does not have, so that a later Go could
// silently bring the signals back.
func TestRuntime_NoPreemptionBySignals(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`-X=runtime\.\S+`).FindString(string(makefile))
	if flag == "" {
		t.Fatal("the Makefile sets no variable of the runtime")
	}
	for _, c := range []struct{ flags, want string }{{"", "interrupted: true\n"}, {flag, "interrupted: false\n"}} {
		program := filepath.Join(t.TempDir(), "preempt")
		if out, err := exec.Command("go", "build", "-ldflags", c.flags, "-o", program, "./testdata/preempt").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command(program)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "GODEBUG=") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("with -ldflags %q: %v, %s", c.flags, err, out)
		}
	}
}
