package built

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// libveloc-client.so exports what veloc.h declares, and what veloc.hpp needs besides.
func TestVeloc_Symbols(t *testing.T) {
	b := theBuild(t)
	names, libraries := exported(t, b.dir, "libveloc-client.so")
	want := slices.Concat(declared(t, "VELOC_", b.dir, "veloc.h"), declared(t, "VELOC_", b.dir, "veloc.hpp"))
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("exported are %q, and the headers declare %q", names, want)
	}
	if !slices.Contains(libraries, "libscr.so") {
		t.Errorf("it needs %q, and not libscr.so", libraries)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "libveloc-client.so")); err != nil || info.Size() > 1<<20 {
		t.Errorf("it should be C only: %v, %v", info, err)
	}
}

// A compiler takes the headers in every version of C and C++, alone, without a warning.
func TestVeloc_Headers(t *testing.T) {
	b := theBuild(t)
	check := func(header, language string, stds ...string) {
		for _, std := range stds {
			source := filepath.Join(t.TempDir(), "use.c")
			must(t, os.WriteFile(source, []byte("#include <"+header+">\nint use(void);\nint use(void) { return VELOC_Checkpoint_finished() + VELOC_CKPT_REST; }\n"), 0o600))
			run(t, b.mpicc, "-x", language, "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-Wno-long-long", "-std="+std, "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
				"-I"+b.dir, "-c", "-o", filepath.Join(t.TempDir(), "use.o"), source)
		}
	}
	check("veloc.h", "c", "c89", "c99", "c11")
	check("veloc.h", "c++", "c++98", "c++20")
	check("veloc.hpp", "c++", "c++11", "c++17", "c++20")
}

// Build systems find the installed library, by pkg-config and by CMake, and a library of VELOC itself stays.
func TestVeloc_Install(t *testing.T) {
	b, dir := tree(t)
	work := t.TempDir()
	must(t, os.WriteFile(filepath.Join(work, "app.c"), []byte("#include <veloc.h>\nint main(void) { return VELOC_Checkpoint_finished() == VELOC_FAILURE ? 0 : 1; }\n"), 0o600))
	pc := exec.Command("pkg-config", "--cflags", "--libs", "goscr-veloc")
	pc.Env = append(os.Environ(), "PKG_CONFIG_PATH="+dir+"/lib/pkgconfig")
	if flags, err := pc.Output(); err != nil {
		t.Errorf("pkg-config: %v", err)
	} else {
		run(t, slices.Concat([]string{b.mpicc, "-o", filepath.Join(work, "app"), filepath.Join(work, "app.c")}, strings.Fields(string(flags)), []string{"-Wl,-rpath," + dir + "/lib"})...)
		run(t, filepath.Join(work, "app"))
	}
	if cmake, err := exec.LookPath("cmake"); err == nil {
		must(t, os.WriteFile(filepath.Join(work, "CMakeLists.txt"), []byte("cmake_minimum_required(VERSION 3.13)\nproject(app C)\nfind_package(veloc REQUIRED)\n"+
			"add_executable(app app.c)\ntarget_link_libraries(app PRIVATE veloc::client)\n"), 0o600))
		run(t, cmake, "-S", work, "-B", work+"/cmake", "-Dveloc_DIR="+dir+"/lib/cmake/goscr-veloc", "-DCMAKE_C_COMPILER="+b.mpicc)
		run(t, cmake, "--build", work+"/cmake")
		run(t, work+"/cmake/app")
	}
	theirs := filepath.Join(work, "p/lib/libveloc-client.so")
	must(t, os.MkdirAll(filepath.Dir(theirs), 0o700))
	must(t, os.WriteFile(theirs, []byte("VELOC's own\n"), 0o600))
	if out, err := makeInstall("install", b.dir, "PREFIX="+work+"/p"); err != nil {
		t.Fatal(out)
	}
	if text := read(t, theirs); text != "VELOC's own\n" {
		t.Error("make install has replaced a library of VELOC")
	}
}
