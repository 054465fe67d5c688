package built

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// strange makes the build directory of another MPI, whose libraries are no libraries.
func strange(t *testing.T, b build, mpi string) string {
	dir := filepath.Join(t.TempDir(), mpi)
	must(t, os.MkdirAll(dir, 0o700))
	for _, name := range []string{"scr", "scr.h", "scr_cr.h", "scr.mod", "scr_cr.mod", "scr.py", "scr_cr.py", "scr_image", "scripts", "version"} {
		run(t, "cp", "-r", filepath.Join(b.dir, name), dir)
	}
	for _, name := range []string{"libscr.so", "libscrf.so", "libscr_cr.so", "libveloc-client.so", "libscr.a", "libscrf.a"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("of "+mpi+"\n"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "mpi"), []byte(mpi+" 1.2.3\n"), 0o600))
	return dir
}

// both is a tree with the libraries of two MPIs, of which the first one is the other.
func both(t *testing.T, b build, other string) string {
	tree := filepath.Join(t.TempDir(), "tree")
	for _, dir := range []string{strange(t, b, other), b.dir} {
		if out, err := makeInstall("install", dir, "PREFIX="+tree); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return tree
}

// contents are what is below a directory: links with their targets, sizes, permissions and
// times of files.
func contents(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[strings.TrimPrefix(path, dir+"/")] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
		if to, err := os.Readlink(path); err == nil {
			all[strings.TrimPrefix(path, dir+"/")] = to
		}
		return nil
	}))
	return all
}

func TestInstall_BuildsNothing(t *testing.T) {
	b, _ := tree(t)
	work := t.TempDir()
	tools, stage := filepath.Join(work, "tools"), filepath.Join(work, "stage")
	must(t, os.Mkdir(tools, 0o700))
	must(t, os.Mkdir(stage, 0o700))
	for _, tool := range []string{"go", "gcc", "cc", "git", b.mpicc} {
		must(t, os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\necho $0 \"$@\" >>"+work+"/called\nexit 1\n"), 0o700))
	}
	// Everything but the stage is read-only: what would touch another place fails.
	cmd := exec.Command("unshare", "--mount", "--map-root-user", "sh", "-e", "-c", `
		mount --bind "$1" "$1"
		mount --make-rprivate /
		for m in $(awk '{ print $5 }' /proc/self/mountinfo); do
			case $m in "$1"|/proc*|/sys*|/dev/pts*) continue ;; esac
			mount -o remount,bind,ro "$m" 2>/dev/null || true
		done
		if touch "$2/probe" 2>/dev/null; then echo 'not read-only'; exit 77; fi
		make -s -C "$3" install BUILD="$4" DESTDIR="$1" PREFIX=/opt/none`, "sh", stage, work, b.root, b.dir)
	cmd.Env = append(os.Environ(), "PATH="+tools+":/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare:") {
		t.Skip(string(out))
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if called, err := os.ReadFile(filepath.Join(work, "called")); err == nil {
		t.Errorf("it has called\n%s", called)
	}
	if _, err := os.Stat(filepath.Join(stage, "opt/none/lib/libscr.so")); err != nil {
		t.Error(err)
	}
}

func TestInstall_NothingIsBuilt(t *testing.T) {
	b, _ := tree(t)
	stage := filepath.Join(t.TempDir(), "stage")
	empty := t.TempDir()
	out, err := makeInstall("install", empty, "DESTDIR="+stage)
	if err == nil || !strings.Contains(out, "run make first") {
		t.Errorf("%v: %s", err, out)
	}
	half := strange(t, b, "half")
	must(t, os.Remove(filepath.Join(half, "libscrf.so")))
	out, err = makeInstall("install", half, "DESTDIR="+stage)
	if err == nil || !strings.Contains(out, "libscrf.so is missing") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Lstat(stage); err == nil {
		t.Errorf("%s is there", stage)
	}
}

// One MPI after the other: none changes a file of another, and the default is the first.
func TestInstall_SideBySide(t *testing.T) {
	b, _ := tree(t)
	work := t.TempDir()
	dirs := []string{"PREFIX=" + work + "/p", "LIBDIR=" + work + "/p/lib64", "MANDIR=" + work + "/man"}
	do := func(goal, build string, variables ...string) string {
		t.Helper()
		out, err := makeInstall(goal, build, append(variables, dirs...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	points := func(want string) {
		t.Helper()
		for _, name := range []string{"libscr.so", "libscrf.so", "libscr_cr.so", "libveloc-client.so", "libscr.a", "libscrf.a"} {
			if to, _ := os.Readlink(filepath.Join(work, "p/lib64", name)); to != "goscr/"+want+"/"+name {
				t.Errorf("%s leads to %q, want %s", name, to, want)
			}
		}
	}
	strangers := strange(t, b, "strange")
	must(t, os.MkdirAll(filepath.Join(work, "p/lib64/goscr-other"), 0o700))
	must(t, os.MkdirAll(filepath.Join(work, "p/bin"), 0o700))
	for _, file := range []string{"p/lib64/libother.so", "p/lib64/goscr-other/file", "p/bin/scr_other", "p/lib64/libscr_other.so"} {
		must(t, os.WriteFile(filepath.Join(work, file), nil, 0o600)) // of others
	}
	alien, before := contents(t, work), directories(t, work)

	do("install", b.dir)
	points(b.mpi)
	first := contents(t, work)
	if out := do("install", strangers); !strings.Contains(out, "-lscr still means "+b.mpi) {
		t.Error(out)
	}
	points(b.mpi)
	second := contents(t, work)
	for path, was := range first {
		if is := second[path]; strings.Contains(path, b.mpi) && is != was {
			t.Errorf("%s: %s, was %s", path, is, was)
		}
	}
	if got := read(t, work, "p/lib64/goscr/strange/libscr.so"); got != "of strange\n" {
		t.Errorf("%q", got)
	}
	do("install", b.dir, "MPI_NAME=again", "DEFAULT=no")
	points(b.mpi)
	do("install", strangers, "DEFAULT=yes")
	points("strange")
	if out := run(t, filepath.Join(work, "p/bin/scr_mpi"), "--list"); !strings.Contains(out, "strange strange 1.2.3\n") || !strings.Contains(out, "again "+b.mpi+" ") {
		t.Error(out)
	}

	do("uninstall", strangers) // the default, whose place another takes
	points("again")
	do("uninstall", t.TempDir(), "MPI_NAME=again")
	points(b.mpi)
	all := []string{}
	third := contents(t, work)
	for path := range first {
		if _, ok := third[path]; !ok {
			t.Errorf("%s is gone", path)
		}
	}
	do("uninstall", b.dir)
	left := contents(t, work)
	for path := range left {
		if alien[path] == "" {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	if len(all) > 0 || len(left) != len(alien) {
		t.Errorf("left: %q", all)
	}
	if dirs := directories(t, work); !slices.Equal(dirs, before) {
		t.Errorf("the directories %q are left, and %q were there before", dirs, before)
	}
}

// directories are those below dir, with dir.
func directories(t *testing.T, dir string) []string {
	var list []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			list = append(list, path)
		}
		return err
	}))
	return list
}

// What make install has made is gone after make uninstall, with the directories; also of a tree that was moved, and
// what others have put there stays.
func TestInstall_UninstallLeavesNoDirectories(t *testing.T) {
	b, _ := tree(t)
	work := t.TempDir()
	do := func(goal string, variables ...string) {
		t.Helper()
		if out, err := makeInstall(goal, b.dir, variables...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, dir := range []string{"there/share/zsh/site-functions", "there/lib", "stage"} {
		must(t, os.MkdirAll(filepath.Join(work, dir), 0o700))
	}
	before := directories(t, work)
	for _, variables := range [][]string{
		{"PREFIX=" + work + "/there"},
		{"PREFIX=" + work + "/opt/scr//new/", "LIBDIR=" + work + "/libs/64", "MANDIR=" + work + "/opt/man"},
		{"DESTDIR=" + work + "/stage/", "PREFIX=/opt/scr", "MANDIR=/man"},
	} {
		do("install", variables...)
		do("install", variables...)
		do("uninstall", variables...)
		if left := directories(t, work); !slices.Equal(left, before) || len(contents(t, work)) > 0 {
			t.Errorf("%q: the directories %q are left", variables, left)
		}
	}

	do("install", "PREFIX="+work+"/a/b")
	must(t, os.Rename(filepath.Join(work, "a/b"), filepath.Join(work, "there/moved")))
	do("uninstall", "PREFIX="+work+"/there/moved")
	if left := directories(t, work); !slices.Equal(left, before) {
		t.Errorf("moved: the directories %q are left", left)
	}

	do("install", "PREFIX="+work+"/c")
	must(t, os.WriteFile(filepath.Join(work, "c/share/bash-completion/completions/other"), nil, 0o600))
	do("uninstall", "PREFIX="+work+"/c")
	want := slices.Concat(before, []string{filepath.Join(work, "c"), filepath.Join(work, "c/share"), filepath.Join(work, "c/share/bash-completion"),
		filepath.Join(work, "c/share/bash-completion/completions")})
	slices.Sort(want)
	left := directories(t, work)
	slices.Sort(left)
	if !slices.Equal(left, want) {
		t.Errorf("with a file of another: the directories %q are left, and not %q", left, want)
	}
}

// Without a Fortran compiler, make leaves out what is for Fortran and says so, and the rest can be installed.
func TestInstall_WithoutFortran(t *testing.T) {
	b, _ := tree(t)
	work := t.TempDir()
	out := run(t, "make", "-s", "--no-print-directory", "-C", b.root, "BUILD="+work+"/build", "MPICC="+b.mpicc, "FC=no-such-compiler", "without_fortran")
	if !strings.Contains(out, "without a Fortran compiler (no-such-compiler)") {
		t.Error(out)
	}
	if out := run(t, "make", "-n", "-C", b.root, "BUILD="+work+"/build", "MPICC="+b.mpicc, "FC=no-such-compiler", "all"); strings.Contains(out, "bindings/fortran/scr") ||
		!strings.Contains(out, "without a Fortran compiler") {
		t.Errorf("make would compile for Fortran:\n%s", out)
	}
	for _, name := range []string{"libscr.so", "libscr_cr.so", "libveloc-client.so", "libscr.a", "scr.h", "scr_cr.h", "scr.py", "scr_cr.py", "scr_image", "scr", "scripts", "mpi", "version"} {
		run(t, "cp", "-r", filepath.Join(b.dir, name), filepath.Join(work, "build"))
	}
	if out, err := makeInstall("install", work+"/build", "PREFIX="+work+"/p"); err != nil {
		t.Fatal(out)
	}
	for _, file := range files(t, work+"/p", "bin", "include", "lib", "share/goscr") {
		if strings.Contains(file, "scrf") || strings.HasSuffix(file, ".mod") || strings.HasSuffix(file, ".f90") {
			t.Errorf("%s is installed", file)
		}
	}
	if cmake, err := exec.LookPath("cmake"); err == nil {
		must(t, os.WriteFile(filepath.Join(work, "CMakeLists.txt"), []byte("cmake_minimum_required(VERSION 3.13)\nproject(app C)\nfind_package(scr REQUIRED)\n"+
			"if(NOT TARGET scr::scr OR TARGET scr::scrf)\n  message(FATAL_ERROR \"targets\")\nendif()\n"), 0o600))
		run(t, cmake, "-S", work, "-B", work+"/cmake", "-DCMAKE_PREFIX_PATH="+work+"/p", "-DCMAKE_C_COMPILER="+b.mpicc)
	}
}

// A library that was installed before there were several is replaced.
func TestInstall_OverAnOlderOne(t *testing.T) {
	b, _ := tree(t)
	prefix := t.TempDir()
	must(t, os.Mkdir(filepath.Join(prefix, "lib"), 0o700))
	must(t, os.WriteFile(filepath.Join(prefix, "lib/libscr.so"), []byte("old"), 0o600))
	if out, err := makeInstall("install", b.dir, "PREFIX="+prefix); err != nil {
		t.Fatal(out)
	}
	if to, _ := os.Readlink(filepath.Join(prefix, "lib/libscr.so")); to != "goscr/"+b.mpi+"/libscr.so" {
		t.Errorf("%q", to)
	}
}

// The modulefiles for Environment Modules and for Lmod set the same.
func TestInstall_Modulefiles(t *testing.T) {
	b, dir := tree(t)
	tcl := map[string]string{}
	modules, err := filepath.Glob("/usr/*/*/modulecmd.tcl")
	must(t, err)
	if len(modules) == 0 {
		t.Skip("no Environment Modules")
	}
	cmd := exec.Command(modules[0], "sh", "load", "goscr/"+b.mpi)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "MODULEPATH=" + filepath.Join(dir, "share/goscr/modulefiles"), "HOME=" + t.TempDir()}
	out, err := cmd.Output()
	must(t, err)
	cmd = exec.Command("sh", "-c", string(out)+"\nenv")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err = cmd.Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			tcl[name] = value
		}
	}
	lib := filepath.Join(dir, "lib/goscr", b.mpi)
	want := map[string]string{"SCR_LIB": lib, "GOSCR_MPI": b.mpi, "LD_LIBRARY_PATH": lib, "LIBRARY_PATH": lib, "CPATH": filepath.Join(dir, "include"),
		"PKG_CONFIG_PATH": filepath.Join(lib, "pkgconfig"), "CMAKE_PREFIX_PATH": dir, "PYTHONPATH": filepath.Join(dir, "lib/python"),
		"PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
	for name, value := range want {
		if tcl[name] != value {
			t.Errorf("Tcl: %s=%q, want %q", name, tcl[name], value)
		}
	}
	if !strings.HasPrefix(tcl["MANPATH"], filepath.Join(dir, "share/man")) {
		t.Errorf("Tcl: MANPATH=%q", tcl["MANPATH"])
	}

	lua, err := exec.LookPath("lua5.3")
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(dir, "share/goscr/modulefiles/goscr", b.mpi+".lua")
	script := `
		function myFileName() return arg[1] end
		function pathJoin(...) return table.concat({...}, "/") end
		function setenv(name, value) print(name .. "=" .. value) end
		prepend_path = setenv
		function help(text) assert(#text > 0) end
		whatis, conflict = help, help
		dofile(arg[1])`
	harness := filepath.Join(t.TempDir(), "harness.lua")
	must(t, os.WriteFile(harness, []byte(script), 0o600))
	got := map[string]string{}
	for line := range strings.Lines(run(t, lua, harness, file)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.HasPrefix(value, "/") {
			value = filepath.Clean(value)
		}
		got[name] = value
	}
	want["PATH"], want["MANPATH"] = filepath.Join(dir, "bin"), filepath.Join(dir, "share/man")
	for name, value := range want {
		if got[name] != value {
			t.Errorf("Lua: %s=%q, want %q", name, got[name], value)
		}
	}
}
