package built

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// installed is where TestMain has make install put everything, and moved it to: what is
// installed must not contain the path it was made for.
var installed = sync.OnceValues(func() (string, error) {
	stage, tree := filepath.Join(scratch, "stage"), filepath.Join(scratch, "moved")
	if out, err := makeInstall("install", os.Getenv("BUILD"), "DESTDIR="+stage, "PREFIX=/opt/scr"); err != nil {
		os.Stderr.WriteString(out)
		return "", err
	}
	return tree, os.Rename(filepath.Join(stage, "opt/scr"), tree)
})

// makeInstall runs make install or uninstall with variables and returns what it prints.
func makeInstall(goal, build string, variables ...string) (string, error) {
	out, err := exec.Command("make", append([]string{"-s", "--no-print-directory", "-C", os.Getenv("ROOT"), goal, "BUILD=" + build}, variables...)...).CombinedOutput()
	return string(out), err
}

// scratch is a directory for all tests together.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "goscr-built."); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

func tree(t *testing.T) (build, string) {
	b := theBuild(t)
	dir, err := installed()
	must(t, err)
	return b, dir
}

// files are the files below some directories, by their paths below dir.
func files(t *testing.T, dir string, below ...string) []string {
	var list []string
	for _, b := range below {
		must(t, filepath.WalkDir(filepath.Join(dir, b), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				list = append(list, strings.TrimPrefix(path, dir+"/"))
			}
			return err
		}))
	}
	slices.Sort(list)
	return list
}

func TestInstall_Files(t *testing.T) {
	b, dir := tree(t)
	want := []string{
		"bin/scr", "include/scr.h", "include/scr.mod", "include/scr_cr.h", "include/scr_cr.mod", "include/scrf.h",
		"lib/cmake/scr/scrConfig.cmake", "lib/cmake/scr/scrConfigVersion.cmake", "lib/goscr/directories", "lib/goscr/" + b.mpi + "/mpi", "lib/python/scr.py", "lib/python/scr_cr.py",
		"include/goscr/veloc.h", "include/goscr/veloc.hpp", "include/goscr/veloc/defs.h", "lib/cmake/goscr-veloc/velocConfig.cmake",
		"lib/libveloc-client.so", "lib/goscr/" + b.mpi + "/libveloc-client.so",
		"lib/libscr_cr.so", "lib/goscr/" + b.mpi + "/libscr_cr.so", "lib/goscr/" + b.mpi + "/scr_image",
		"share/goscr/scr.f90", "share/goscr/scr_cr.f90", "share/goscr/grafana/views.sql", "share/goscr/grafana/goscr.json", "share/goscr/grafana/goscr-prometheus.json", "share/goscr/gdb/goscr.py", "share/goscr/modulefiles/goscr/" + b.mpi, "share/goscr/modulefiles/goscr/" + b.mpi + ".lua",
		"share/goscr/ompi/ompi-checkpoint", "share/goscr/ompi/ompi-migrate", "share/goscr/ompi/ompi-restart",
		"share/goscr/slurm/epilog", "share/goscr/slurm/prolog",
	}
	for _, name := range []string{"scr", "scrf"} {
		for _, end := range []string{".so", ".a"} {
			want = append(want, "lib/lib"+name+end, "lib/goscr/"+b.mpi+"/lib"+name+end)
		}
		for _, pc := range []string{name, name + "-static"} {
			want = append(want, "lib/pkgconfig/"+pc+".pc", "lib/pkgconfig/"+pc+"-"+b.mpi+".pc", "lib/goscr/"+b.mpi+"/pkgconfig/"+pc+".pc")
		}
	}
	for _, pc := range []string{"scr_cr", "goscr-veloc"} {
		want = append(want, "lib/pkgconfig/"+pc+".pc", "lib/pkgconfig/"+pc+"-"+b.mpi+".pc", "lib/goscr/"+b.mpi+"/pkgconfig/"+pc+".pc")
	}
	for _, name := range strings.Fields(run(t, filepath.Join(b.dir, "scr"), "links")) {
		want = append(want, "bin/"+name)
	}
	for _, launcher := range []string{"srun", "mpirun", "flux", "jsrun", "aprun"} {
		want = append(want, "share/goscr/scripts/scr_"+launcher+".sh", "share/goscr/scripts/scr_"+launcher+"_loop.sh")
	}
	slices.Sort(want)
	if got := files(t, dir, "bin", "include", "lib", "share/goscr"); !slices.Equal(got, want) {
		t.Errorf("installed:\n%s\nexpected:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, file := range files(t, dir, "lib/cmake", "lib/pkgconfig", "lib/goscr/"+b.mpi+"/pkgconfig", "lib/python", "include", "share/goscr") {
		if text := read(t, dir, file); strings.Contains(text, b.dir) || strings.Contains(text, "/opt/scr") {
			t.Errorf("%s names the place where it was built or made for", file)
		}
	}
}

// The completions of bash and fish are found by the name of the command.
func TestInstall_Completions(t *testing.T) {
	b, dir := tree(t)
	for _, name := range strings.Fields(run(t, filepath.Join(b.dir, "scr"), "links")) {
		for _, file := range []string{"bash-completion/completions/" + name, "fish/vendor_completions.d/" + name + ".fish", "zsh/site-functions/_scr"} {
			if text := read(t, dir, "share", file); !strings.Contains(text, name) {
				t.Errorf("%s does not complete %s", file, name)
			}
		}
	}
	script := `source "$1/share/bash-completion/completions/scr_index"; COMP_WORDS=(scr_index --dr) COMP_CWORD=1; _scr_complete; echo "${COMPREPLY[*]}"`
	if out := run(t, "env", "PATH="+dir+"/bin:/usr/bin:/bin", "bash", "-c", script, "bash", dir); out != "--drop --drop-after\n" {
		t.Errorf("%q", out)
	}
}

var blanks = regexp.MustCompile(`\s+`)

// A man page has no fault, the declaration of scr.h or scr_cr.h, and the call of scrf.h or module scr_cr.
func TestInstall_ManPages(t *testing.T) {
	b, dir := tree(t)
	inside := declared(t, "SCR_CR_", b.dir, "scr_cr.h")
	functions := slices.Sorted(slices.Values(slices.Concat(b.functions(t), inside)))
	var pages []string
	for _, page := range files(t, dir, "share/man/man3") {
		pages = append(pages, strings.TrimSuffix(filepath.Base(page), ".3"))
	}
	if !slices.Equal(pages, functions) {
		t.Errorf("pages for %q, functions %q", pages, functions)
	}
	header := blanks.ReplaceAllString(read(t, b.dir, "scr.h")+read(t, b.dir, "scr_cr.h"), " ")
	fortran := read(t, b.dir, "scrf.h")
	for _, m := range regexp.MustCompile(`(?m)^ *subroutine (scr_cr_.*)$`).FindAllStringSubmatch(read(t, b.root, "bindings/fortran/scr_cr.f90"), -1) {
		fortran += "\n! call " + m[1]
	}
	squeeze := func(text string) string { return blanks.ReplaceAllString(text, "") }
	for _, name := range functions {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(dir, "share/man/man3", name+".3")
			if out := run(t, "mandoc", "-T", "lint", "-W", "warning", page); out != "" {
				t.Error(out)
			}
			declared := regexp.MustCompile(`[a-z][a-z ]*\*? ?`+name+`\([^)]*\)`).FindAllString(header, -1)
			shown := regexp.MustCompile(`.\x08`).ReplaceAllString(run(t, "mandoc", "-T", "ascii", "-O", "width=200", page), "")
			_, shown, _ = strings.Cut(shown, "\nSYNOPSIS")
			shown, _, _ = strings.Cut(shown, ";")
			shown = regexp.MustCompile(`(?m)^.*#include.*$`).ReplaceAllString(shown, "")
			if len(declared) == 0 || squeeze(declared[len(declared)-1]) != squeeze(shown) {
				t.Errorf("the header declares %q, the page says %q", declared, squeeze(shown))
			}
			if name == "SCR_Configf" { // which Fortran has not got
				return
			}
			call := regexp.MustCompile(`(?im)^ *(call ` + name + `\(.*)$`)
			inHeader := regexp.MustCompile(`(?im)^! *(call ` + name + `\(.*)$`).FindStringSubmatch(fortran)
			inPage := call.FindStringSubmatch(read(t, page))
			if inHeader == nil || inPage == nil || inHeader[1] != inPage[1] {
				t.Errorf("Fortran has %q, the page %q", inHeader, inPage)
			}
		})
	}
}

func TestInstall_ManPagesWithGroff(t *testing.T) {
	_, dir := tree(t)
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip(err)
	}
	for _, page := range files(t, dir, "share/man/man3") {
		if out := run(t, "groff", "-ww", "-mandoc", "-Tutf8", "-z", filepath.Join(dir, page)); out != "" {
			t.Errorf("%s: %s", page, out)
		}
	}
}

// Each link of a page that is not to the web leads to something.
func TestInstall_Links(t *testing.T) {
	_, dir := tree(t)
	for _, page := range files(t, dir, "share/doc/goscr") {
		if filepath.Ext(page) != ".md" {
			continue
		}
		for _, m := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(read(t, dir, page), -1) {
			link, _, _ := strings.Cut(m[1], "#")
			if link == "" || strings.HasPrefix(link, "http") {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.Dir(page), link)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

func TestInstall_Examples(t *testing.T) {
	b, dir := tree(t)
	run(t, "diff", "-r", filepath.Join(b.root, "examples"), filepath.Join(dir, "share/doc/goscr/examples"), "-x", "__pycache__")
}

// Programs that are built with what is installed, and run on simulated nodes.
func TestInstall_Programs(t *testing.T) {
	b, dir := tree(t)
	other := map[string]string{"openmpi": "mpich", "mpich": "openmpi"}[b.mpi]
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/programs.txtar"},
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"HOME", "GOCACHE", "GOPATH", "TESTBED_DIR"} {
				e.Setenv(name, os.Getenv(name))
			}
			for name, value := range map[string]string{"TREE": dir, "BUILD": b.dir, "MPI": b.mpi, "MPICC": b.mpicc, "TESTBED": b.testbed,
				"EXAMPLES": filepath.Join(b.root, "examples"), "TESTS": filepath.Join(b.root, "test/scripts"), "OTHER": other, "BOTH": both(t, b, other), "PKG_CONFIG_PATH": filepath.Join(dir, "lib/pkgconfig"),
				"PYTHONDONTWRITEBYTECODE": "1", "BY_HAND": ""} {
				e.Setenv(name, value)
			}
			version := regexp.MustCompile(`#define SCR_VERSION "v(.*)"`).FindStringSubmatch(read(t, b.dir, "scr.h"))
			e.Setenv("VERSION", version[1])
			return examples(filepath.Join(b.root, "docs/bindings.md"), e.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"computes": computes, "writes": writes, "saves": saves},
		Condition: func(name string) (bool, error) {
			_, err1 := exec.LookPath("mpicc." + other)
			_, err2 := exec.LookPath("mpirun." + other)
			return name == "other" && err1 == nil && err2 == nil, nil
		},
		ContinueOnError: true, RequireExplicitExec: true,
	})
}

// examples writes the first example in each language that a page shows to app.c and so on.
func examples(page, dir string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	for language, name := range map[string]string{"c": "app.c", "fortran": "app.f90", "python": "app.py", "go": "app.go"} {
		_, code, _ := strings.Cut(string(text), "\n```"+language+"\n")
		code, _, _ = strings.Cut(code, "\n```\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(code+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// job runs a program on two nodes in a directory of its own: [NAME=VALUE...] PROGRAM...,
// with more arguments at the end.
func job(ts *testscript.TestScript, kind string, args []string, more ...string) (dir string) {
	dir, err := os.MkdirTemp(ts.Getenv("WORK"), kind)
	ts.Check(err)
	runIn(ts, dir, args, more...)
	return dir
}

// runIn is job in a directory of which a job may have run before, whose nodes are gone.
func runIn(ts *testscript.TestScript, dir string, args []string, more ...string) {
	ts.Check(ts.Exec(ts.Getenv("TESTBED"), "wipe"))
	options := []string{"-C", dir, ts.Getenv("TESTBED"), "run", "-n", "2", "--per-node", "1", "--mpi", ts.Getenv("MPI"), "--timeout", "60", "--env", "SCR_PREFIX=" + dir}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		options, args = append(options, "--env", args[0]), args[1:]
	}
	options = append(append(options, "--"), args...)
	for _, a := range more {
		options = append(options, strings.ReplaceAll(a, "$DIR", dir))
	}
	ts.Check(ts.Exec("env", options...))
}

// computes [NAME=VALUE...] PROGRAM...: a run with a checkpoint in it comes to its result,
// which is that of the other programs.
func computes(ts *testscript.TestScript, _ bool, args []string) {
	dir := job(ts, "computes", args, "-x", "9", "-y", "9", "-s", "20", "-c", "10", "-o", "$DIR/field")
	if out := "\n" + ts.ReadFile("stdout") + "\n" + ts.ReadFile("stderr"); !strings.Contains(out, "\ncheckpoint heat.10 complete") {
		ts.Fatalf("it has made no checkpoint")
	}
	field := ts.ReadFile(filepath.Join(dir, "field"))
	first := filepath.Join(ts.Getenv("WORK"), "field")
	if _, err := os.Stat(first); err != nil {
		ts.Check(os.WriteFile(first, []byte(field), 0o600))
	}
	if field == "" || field != ts.ReadFile(first) {
		ts.Fatalf("another result than that of the first program")
	}
}

// writes [NAME=VALUE...] PROGRAM...: the first run makes step 1 and its checkpoint, the next one restarts from
// that and makes step 2, and the next, for which rank 1 has lost its file of step 2, restarts from step 1 again.
func writes(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := os.MkdirTemp(ts.Getenv("WORK"), "writes")
	ts.Check(err)
	file := func(step, rank string) string { return filepath.Join(dir, "ckpt."+step, "rank_"+rank) }
	for _, step := range []string{"1", "2", "2"} {
		runIn(ts, dir, args)
		for _, rank := range []string{"0", "1"} {
			if got := strings.TrimSpace(ts.ReadFile(file(step, rank))); got != "step "+step {
				ts.Fatalf("rank %s has written %q", rank, got)
			}
		}
		if step == "2" {
			ts.Check(os.WriteFile(file(step, "1"), []byte("nothing"), 0o600))
		}
	}
}

// saves [NAME=VALUE...] PROGRAM...: takespart.f90 or .py writes a checkpoint in a function of its own.
func saves(ts *testscript.TestScript, _ bool, args []string) {
	job(ts, "saves", args, "self", "3", "register")
	for _, rank := range []string{"0", "1"} {
		if out := "\n" + ts.ReadFile("stdout"); !strings.Contains(out, "\n"+rank+" checkpoint 1\n") {
			ts.Fatalf("rank %s has made no checkpoint: %s", rank, out)
		}
	}
}
