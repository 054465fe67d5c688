package built

import (
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A compiler takes scr.h in every version of C and C++, without a warning.
func TestLibrary_Header(t *testing.T) {
	b := theBuild(t)
	object := filepath.Join(t.TempDir(), "use.o")
	for _, std := range []string{"c89", "c99", "c11"} {
		t.Run(std, func(t *testing.T) {
			run(t, "cc", "-std="+std, "-pedantic-errors", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror", "-I"+b.dir, "-c", "-o", object, "testdata/use.c")
		})
	}
	for _, std := range []string{"c++98", "c++03", "c++11", "c++14", "c++17", "c++20"} {
		t.Run(std, func(t *testing.T) {
			run(t, "c++", "-x", "c++", "-std="+std, "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-I"+b.dir, "-c", "-o", object, "testdata/use.c")
		})
	}
}

// A linker finds all functions in the library.
func TestLibrary_Links(t *testing.T) {
	b := theBuild(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "main.c")
	must(t, os.WriteFile(program, []byte("int main(void) { return 0; }\n"), 0o600))
	run(t, b.mpicc, "-std=c99", "-DWITH_MPI", "-include", "mpi.h", "-I"+b.dir, "-o", filepath.Join(dir, "use"), "testdata/use.c", program,
		"-L"+b.dir, "-lscr", "-Wl,--no-undefined")
}

// libscr.so has the functions of scr.h, those for libscr_cr.so, and those for libveloc-client.so: it wraps nothing of MPI.
func TestLibrary_Symbols(t *testing.T) {
	b := theBuild(t)
	f, err := elf.Open(filepath.Join(b.dir, "libscr.so"))
	must(t, err)
	defer f.Close()
	names, libraries := exported(t, b.dir, "libscr.so")
	want := slices.Concat(b.functions(t), declared(t, "goscr_cr_", b.root, "cmd/libscr/inside.h"), declared(t, "goscr_variables_", b.root, "cmd/libscr/variables.h"))
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("exported are %q, and scr.h, inside.h and variables.h declare %q", names, want)
	}
	if name, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(name, []string{"libscr.so"}) {
		t.Errorf("soname %q, %v", name, err)
	}
	var mpis []string
	for _, l := range libraries {
		switch {
		case strings.HasPrefix(l, "libmpich"):
			mpis = append(mpis, "mpich")
		case strings.HasPrefix(l, "libmpi.") || strings.HasPrefix(l, "libmpi_"):
			mpis = append(mpis, "openmpi")
		}
	}
	if got := slices.Compact(mpis); !slices.Equal(got, []string{b.mpi}) {
		t.Errorf("it needs %q of %q", got, libraries)
	}
}

// The static libraries define SCR's functions, and nothing that a program could have, too.
func TestLibrary_StaticSymbols(t *testing.T) {
	b := theBuild(t)
	fortran := regexp.MustCompile(`^(scr_[a-z_]+_|__scr_MOD_scr_[a-z_]+)$`)
	for _, name := range []string{"libscr.a", "libscrf.a"} {
		var got []string
		others := 0
		for line := range strings.Lines(run(t, "nm", "--extern-only", "--defined-only", filepath.Join(b.dir, name))) {
			f := strings.Fields(line)
			switch {
			case len(f) != 3:
			case fortran.MatchString(f[2]):
				others++
			default:
				got = append(got, f[2])
			}
		}
		slices.Sort(got)
		if want := b.functions(t); !slices.Equal(got, want) {
			t.Errorf("%s defines %q, scr.h declares %q", name, got, want)
		}
		if (others > 0) != (name == "libscrf.a") {
			t.Errorf("%s defines %d names for Fortran", name, others)
		}
	}
}

// The linker has put the setting into the library that cmd/libscr tests.
func TestLibrary_NoPreemptionBySignals(t *testing.T) {
	f, err := elf.Open(filepath.Join(theBuild(t).dir, "libscr.so"))
	must(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	must(t, err)
	for _, s := range symbols {
		if s.Name != "runtime.godebugDefault.str" {
			continue
		}
		section := f.Sections[s.Section]
		text := make([]byte, s.Size)
		_, err := section.ReadAt(text, int64(s.Value-section.Addr))
		must(t, err)
		if got := strings.TrimRight(string(text), "\x00"); got != "asyncpreemptoff=1,containermaxprocs=0" {
			t.Errorf("runtime.godebugDefault is %q", got)
		}
		return
	}
	t.Error("the library has no runtime.godebugDefault that the linker has set")
}

func TestLibrary_Commands(t *testing.T) {
	b := theBuild(t)
	f, err := elf.Open(filepath.Join(b.dir, "scr"))
	must(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("scr is not static")
		}
	}
	for _, name := range []string{"scr_index", "scr_print", "scr_print_hash_file", "scr_crc32"} {
		run(t, filepath.Join(b.dir, name), "--help")
	}
	nine := filepath.Join(t.TempDir(), "nine")
	must(t, os.WriteFile(nine, []byte("123456789"), 0o600))
	if out := run(t, filepath.Join(b.dir, "scr_crc32"), nine); !strings.Contains(strings.ToLower(out), "cbf43926") {
		t.Errorf("scr_crc32: %s", out)
	}
}
