package built

import (
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/config"
)

// declared are the functions that a header declares with a name that begins with a prefix.
func declared(t *testing.T, prefix string, path ...string) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\b(`+prefix+`[A-Za-z_]*)\(`).FindAllStringSubmatch(read(t, path...), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		t.Fatalf("%s declares nothing", path)
	}
	return names
}

// exported are the functions that a library exports, and the libraries that it needs.
func exported(t *testing.T, path ...string) (names, libraries []string) {
	t.Helper()
	f, err := elf.Open(filepath.Join(path...))
	must(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	must(t, err)
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	libraries, err = f.ImportedLibraries()
	must(t, err)
	return names, libraries
}

// A compiler takes scr_cr.h in every version of C and C++, alone, without a warning, and has
// Open MPI's names for everything.
func TestLibrary_InsideHeader(t *testing.T) {
	b := theBuild(t)
	object := filepath.Join(t.TempDir(), "use.o")
	for _, std := range []string{"c89", "c99", "c11"} {
		t.Run(std, func(t *testing.T) {
			run(t, b.mpicc, "-Wno-long-long", "-std="+std, "-pedantic-errors", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror", "-I"+b.dir, "-c", "-o", object, "testdata/usecr.c")
		})
	}
	for _, std := range []string{"c++98", "c++11", "c++20"} {
		t.Run(std, func(t *testing.T) {
			run(t, b.mpicc, "-x", "c++", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-Wno-long-long", "-std="+std, "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-I"+b.dir, "-c", "-o", object, "testdata/usecr.c")
		})
	}
	header := read(t, b.dir, "scr_cr.h")
	for _, name := range regexp.MustCompile(`\bSCR_CR_\w+`).FindAllString(header, -1) {
		switch strings.TrimPrefix(name, "SCR_CR_") {
		case "H", "SUCCESS", "":
			continue
		}
		if slices.ContainsFunc(config.Parameters, func(p config.Parameter) bool { return p.Name == name }) {
			continue // a comment names it
		}
		if theirs := "OMPI_" + strings.TrimPrefix(name, "SCR_"); !regexp.MustCompile(`\b` + theirs + `\b`).MatchString(header) {
			t.Errorf("%s has no name %s", name, theirs)
		}
	}
}

// libscr_cr.so exports what scr_cr.h declares and wraps what it has to, and its Go is that of
// libscr.so.
func TestLibrary_InsideSymbols(t *testing.T) {
	b := theBuild(t)
	names, libraries := exported(t, b.dir, "libscr_cr.so")
	want := append(declared(t, "SCR_CR_", b.dir, "scr_cr.h"), declared(t, "OMPI_CR_", b.dir, "scr_cr.h")...)
	for _, kind := range []string{"", "I", "S", "B", "R", "Is", "Ib", "Ir"} {
		name := "MPI_" + kind + "send"
		if kind == "" {
			name = "MPI_Send"
		}
		want = append(want, name)
	}
	for _, kind := range []string{"Send", "Ssend", "Bsend", "Rsend", "Recv"} {
		want = append(want, "MPI_"+kind+"_init")
	}
	for _, kind := range []string{"", "all", "any", "some"} {
		want = append(want, "MPI_Wait"+kind, "MPI_Test"+kind)
	}
	want = append(want, "MPI_Recv", "MPI_Irecv", "MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Probe", "MPI_Iprobe", "MPI_Mprobe", "MPI_Improbe",
		"MPI_Mrecv", "MPI_Imrecv", "MPI_Start", "MPI_Startall", "MPI_Request_free", "MPI_Finalize", "MPI_Init", "MPI_Init_thread",
		"MPI_Query_thread", "MPI_Type_free", "MPI_Win_create", "MPI_Win_free", "MPIR_checkpoint_debugger_detach",
		"MPIR_checkpoint_debugger_waitpoint", "MPIR_checkpoint_debugger_signal_handler")
	for _, name := range declared(t, "SCR_CR_", b.dir, "scr_cr.h") {
		want = append(want, strings.ToLower(name)+"_") // for Fortran
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not exported", name)
		}
	}
	for _, name := range names {
		if !slices.Contains(want, name) && !strings.HasPrefix(name, "MPI_") && !strings.HasPrefix(name, "MPIR_") {
			t.Errorf("%s is exported", name)
		}
	}
	if !slices.Contains(libraries, "libscr.so") {
		t.Errorf("it needs %q", libraries)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "libscr_cr.so")); err != nil || info.Size() > 1<<20 {
		t.Errorf("%v, %v: there is more than C in it", info, err)
	}
}

// A program that only sets LD_PRELOAD gets both libraries, from one directory.
func TestLibrary_InsideFindsLibrary(t *testing.T) {
	b := theBuild(t)
	library := filepath.Join(b.dir, "libscr_cr.so")
	out := run(t, "env", "-u", "LD_LIBRARY_PATH", "LD_PRELOAD="+library, "cat", "/proc/self/maps")
	for _, path := range []string{library, filepath.Join(b.dir, "libscr.so")} {
		if !strings.Contains(out, path+"\n") {
			t.Errorf("%s is not loaded:\n%s", path, out)
		}
	}
}

// The calls of mpi.h that take a communicator, a request or a message are wrapped, or listed with
// a reason: one that is neither would send messages that nobody counts.
func TestLibrary_InsideWrapsMPI(t *testing.T) {
	b := theBuild(t)
	names, _ := exported(t, b.dir, "libscr_cr.so")
	source := filepath.Join(t.TempDir(), "all.c")
	must(t, os.WriteFile(source, []byte("#include <mpi.h>\n"), 0o600))
	var calls []string
	takes := regexp.MustCompile(`\bMPI_(Comm|Request|Message)\b`)
	for _, m := range regexp.MustCompile(`\bint\s+(MPI_[A-Z]\w*)\s*\(([^;]*?)\)[^;()]*(?:__attribute__[^;]*)?;`).FindAllStringSubmatch(run(t, b.mpicc, "-E", source), -1) {
		if takes.MatchString(m[2]) {
			calls = append(calls, m[1])
		}
	}
	if len(calls) < 150 || !slices.Contains(calls, "MPI_Ineighbor_alltoallw") || !slices.Contains(calls, "MPI_Comm_idup") {
		t.Fatalf("mpi.h was not understood: %v", calls)
	}
	reasons := map[string]string{}
	for _, part := range strings.Split(read(t, "../../../cr/lib/unwrapped"), "\n\n") {
		if reason, list, ok := strings.Cut(part, ": "); ok {
			for _, name := range strings.Fields(list) {
				reasons[name] = reason
			}
		}
	}
	wrapped := 0
	for _, name := range calls {
		switch is := slices.Contains(names, name); {
		case is && reasons[name] != "":
			t.Errorf("%s is wrapped, and listed as not wrapped", name)
		case is:
			wrapped++
		case reasons[name] == "":
			t.Errorf("%s is neither wrapped nor listed in cr/lib/unwrapped", name)
		default:
			t.Logf("%s: %s", name, reasons[name])
		}
	}
	t.Logf("of %d calls %d are wrapped", len(calls), wrapped)
}
