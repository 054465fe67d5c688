package public

import (
	"fmt"
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
	program := build(t, "testdata/outside")
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

// The example audit finds which sets of a job that was killed can be rebuilt, from the caches of its nodes.
func TestAudit(t *testing.T) {
	program, audit := build(t, "testdata/outside"), build(t, "../../examples/audit")
	dir := t.TempDir()
	run(t, program, dir, "37", 3)
	control := func(nodes ...int) (list []string) {
		for _, n := range nodes {
			list = append(list, filepath.Join(dir, fmt.Sprint("node", n), "user/scr.heat"))
		}
		return list
	}
	for _, test := range []struct {
		name   string
		nodes  []int
		damage string
		status int
		want   []string
	}{
		{"all nodes", []int{0, 1, 2, 3}, "", 0, []string{"rank 2: 2 files: <nil>", "XOR: lost members [] of 4: can be rebuilt: true"}},
		{"without one", []int{0, 1, 3}, "", 0, []string{"XOR: lost members [2] of 4: can be rebuilt: true"}},
		{"without two", []int{0, 3}, "", 1, []string{"XOR: lost members [1 2] of 4: can be rebuilt: false"}},
		{"a changed byte", []int{0, 1, 2, 3}, "node1/user/scr.heat/scr.dataset.3/ckpt.30/rank_1", 0,
			[]string{"rank_1: the contents have the CRC-32", "XOR: lost members [1] of 4: can be rebuilt: true"}},
		{"... and one without two", []int{0, 1, 3}, "", 1, []string{"XOR: lost members [1 2] of 4: can be rebuilt: false"}},
		{"a changed byte of redundancy", []int{0, 1, 2, 3}, "node3/user/scr.heat/scr.dataset.3/.scr/*.xor", 1,
			[]string{"block at byte 0 of section 0 has checksum", "XOR: lost members [1 3] of 4: can be rebuilt: false"}},
	} {
		if test.damage != "" {
			files, err := filepath.Glob(filepath.Join(dir, test.damage))
			must(t, err)
			if len(files) != 1 {
				t.Fatalf("%s: %d files", test.damage, len(files))
			}
			data, err := os.ReadFile(files[0])
			must(t, err)
			data[len(data)-1] ^= 1
			must(t, os.WriteFile(files[0], data, 0o600))
		}
		out := runWith(t, audit, dir, test.status, control(test.nodes...)...)
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", test.name, want, out)
			}
		}
	}
}

// build compiles the program of a directory outside this module, with the module cache and
// without a network, and returns its path.
func build(t *testing.T, source string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(source)))
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
	return runWith(t, program, dir, status, dir, kill)
}

func runWith(t *testing.T, program, dir string, status int, arguments ...string) string {
	t.Helper()
	cmd := exec.Command(program, arguments...)
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
