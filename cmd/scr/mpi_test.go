package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wrapperOf makes a compiler wrapper whose mpi.h has some macros.
func wrapperOf(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "mpicc")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\ncat <<'.'\n"+text+"\n.\n"), 0o700))
	return path
}

const (
	openMPI = "#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n#define OMPI_RELEASE_VERSION 4\n#define MPI_VERSION 3"
	mpich   = "#define MPICH_VERSION \"4.0.2\"\n#define MPICH_NUMVERSION 40002300\n#define MPI_VERSION 4"
	intel   = "#define I_MPI_VERSION \"2021.11\"\n#define MPICH_VERSION \"3.4a2\""
	mvapich = "#define MVAPICH2_VERSION \"2.3.7\"\n#define MPICH_VERSION \"3.2.1\""
	other   = "#define MPI_VERSION 5\n#define MPI_SUBVERSION 0"
)

func TestMPI_OfAWrapper(t *testing.T) {
	for text, want := range map[string]string{
		openMPI: "openmpi 4.1.4\n", mpich: "mpich 4.0.2\n", intel: "intelmpi 2021.11\n", mvapich: "mvapich2 2.3.7\n", other: "mpi 5.0\n",
	} {
		if out, _ := run(t, 0, "scr_mpi", "--describe", "--mpicc", wrapperOf(t, text)); out != want {
			t.Errorf("%q, want %q", out, want)
		}
		t.Setenv("MPICC", wrapperOf(t, text))
		if out, _ := run(t, 0, "scr_mpi", "-d"); out != want {
			t.Errorf("$MPICC: %q, want %q", out, want)
		}
	}
	bad := filepath.Join(t.TempDir(), "mpicc")
	must(t, os.WriteFile(bad, []byte("#!/bin/sh\necho 'mpi.h: No such file' >&2\nexit 1\n"), 0o700))
	for _, wrapper := range []string{bad, filepath.Join(t.TempDir(), "none")} {
		if out, said := run(t, 1, "scr_mpi", "--mpicc", wrapper); out != "" || !strings.Contains(said, wrapper) {
			t.Errorf("%q %q", out, said)
		}
	}
}

func TestMPI_Chooses(t *testing.T) {
	lib := t.TempDir()
	if _, said := run(t, 1, "scr_mpi", "--list", "--libdir", lib); !strings.Contains(said, "no library is installed") {
		t.Error(said)
	}
	for name, of := range map[string]string{"openmpi": "openmpi 4.1.4", "openmpi-5": "openmpi 5.0.1", "openmpi-5.0.6": "openmpi 5.0.6", "mpich": "mpich 4.2.0"} {
		must(t, os.MkdirAll(filepath.Join(lib, "goscr", name), 0o700))
		must(t, os.WriteFile(filepath.Join(lib, "goscr", name, "mpi"), []byte(of+"\n"), 0o600))
	}
	version5 := func(last string) string {
		return strings.NewReplacer("N 4", "N 5", "N 1", "N 0", "RELEASE_VERSION 4", "RELEASE_VERSION "+last).Replace(openMPI)
	}
	for text, want := range map[string]string{
		openMPI: "openmpi\n", mpich: "mpich\n", // another version, of which one is there
		version5("1"): "openmpi-5\n", version5("6"): "openmpi-5.0.6\n",
	} {
		if out, _ := run(t, 0, "scr_mpi", "--libdir", lib, "-m", wrapperOf(t, text)); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	}
	for text, want := range map[string]string{
		intel: "no library is for intelmpi 2021.11", version5("9"): "several libraries are for openmpi",
		strings.Replace(mpich, "4.0.2", "3.4.1", 1): "no library is for mpich 3.4.1",
	} {
		if out, said := run(t, 1, "scr_mpi", "--libdir", lib, "-m", wrapperOf(t, text)); out != "" || !strings.Contains(said, want) {
			t.Errorf("%q %q, want %q", out, said, want)
		}
	}
	out, _ := run(t, 0, "scr_mpi", "--list", "--libdir", lib)
	if want := "mpich mpich 4.2.0\nopenmpi openmpi 4.1.4\nopenmpi-5 openmpi 5.0.1\nopenmpi-5.0.6 openmpi 5.0.6\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}
