package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

var mpiCommand = command{
	names:    []string{"scr_mpi"},
	short:    "print the name of the installed library for the MPI of a compiler wrapper",
	synopsis: []string{"[--mpicc WRAPPER] [--libdir DIR] [--describe | --list] [--json]"},
	long: `Libraries for several MPIs can be installed side by side, each in its own directory in lib/goscr. This command
prints the name of the library for the MPI of a compiler wrapper. If libraries for several versions of this MPI are installed, it chooses
the same version, else the only library with the same first number. The default wrapper is $MPICC, else mpicc;
wrappers for C++ and Fortran work, too.`,
	exit: status{done: "Printed.", failed: "No library is for this MPI, or the wrapper does not work; a line on standard error says so."},
	examples: `    mpicc.mpich app.c $(pkg-config --cflags --libs scr-$(scr_mpi --mpicc mpicc.mpich))
    cmake . -DCMAKE_C_COMPILER=mpicc.mpich     # find_package(scr) asks this command`,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		wrapper := flags.StringP("mpicc", "m", "", "compiler wrapper `WRAPPER` (default: $MPICC, else mpicc)")
		libdir := flags.String("libdir", "", "directory `DIR` in which goscr/<mpi> are (default: that of this installation)")
		describe := flags.BoolP("describe", "d", false, "print the MPI of the wrapper and its version, as openmpi 4.1.4")
		list := flags.BoolP("list", "l", false, "print all installed libraries, each with its MPI and its version")
		asJSON := flags.Bool("json", false, "write JSON")
		return func([]string) error {
			if *describe && *list {
				return fmt.Errorf("--describe and --list do not go together; %w", errUsage)
			}
			var of mpiName
			var err error
			if !*list {
				if of, err = wrapped(cmp.Or(*wrapper, os.Getenv("MPICC"), "mpicc")); err != nil {
					return err
				}
			}
			if *describe {
				if *asJSON {
					return c.encode(of)
				}
				_, err := fmt.Fprintln(c.out, of.MPI, of.Version)
				return err
			}
			all, err := installedMPIs(*libdir)
			if err != nil {
				return err
			}
			if *list {
				return c.listMPIs(all, *asJSON)
			}
			found, err := chooseMPI(of, all)
			if err != nil {
				return err
			}
			if *asJSON {
				return c.encode(found)
			}
			_, err = fmt.Fprintln(c.out, found.Name)
			return err
		}
	},
}

// mpiName is an MPI and the library that is for it.
type mpiName struct {
	Name    string `json:"name,omitempty"`      // of the directory in lib/goscr
	Dir     string `json:"directory,omitempty"` // its path
	MPI     string `json:"mpi"`                 // openmpi, mpich, ...
	Version string `json:"version"`
}

func (c *context) listMPIs(all []mpiName, asJSON bool) error {
	if asJSON {
		return c.encode(all)
	}
	for _, m := range all {
		fmt.Fprintln(c.out, m.Name, m.MPI, m.Version)
	}
	return nil
}

// macros of mpi.h by which MPIs are told apart. What is built on MPICH has macros of MPICH
// too, so it comes first. The values of several macros are joined by points.
var macros = []struct {
	mpi     string
	version []string
}{
	{"openmpi", []string{"OMPI_MAJOR_VERSION", "OMPI_MINOR_VERSION", "OMPI_RELEASE_VERSION"}},
	{"intelmpi", []string{"I_MPI_VERSION"}},
	{"mvapich", []string{"MVAPICH_VERSION"}},
	{"mvapich2", []string{"MVAPICH2_VERSION"}},
	{"cray-mpich", []string{"CRAY_MPICH_VERSION"}},
	{"mpich", []string{"MPICH_VERSION"}},
}

// wrapped returns the MPI of a compiler wrapper, by the macros of its mpi.h.
func wrapped(wrapper string) (mpiName, error) {
	words := strings.Fields(wrapper) // it may be written with options
	if len(words) == 0 {
		return mpiName{}, fmt.Errorf("--mpicc is empty; %w", errUsage)
	}
	cmd := exec.Command(words[0], append(words[1:], "-x", "c", "-E", "-dM", "-")...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader("#include <mpi.h>\n"), &said
	out, err := cmd.Output()
	if err != nil {
		if line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); line != "" {
			err = fmt.Errorf("%w: %s", err, line)
		}
		return mpiName{}, fmt.Errorf("%s does not find an mpi.h: %w", wrapper, err)
	}
	return ofMacros(string(out)), nil
}

// ofMacros finds the MPI in the definitions of mpi.h. An unknown MPI is "mpi", with the
// version of the standard.
func ofMacros(text string) mpiName {
	defined := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+) "?([^"\s]*)`).FindAllStringSubmatch(text, -1) {
		defined[m[1]] = m[2]
	}
	for _, m := range macros {
		if _, ok := defined[m.version[0]]; ok {
			return mpiName{MPI: m.mpi, Version: versionOf(defined, m.version)}
		}
	}
	return mpiName{MPI: "mpi", Version: versionOf(defined, []string{"MPI_VERSION", "MPI_SUBVERSION"})}
}

func versionOf(defined map[string]string, names []string) string {
	var parts []string
	for _, name := range names {
		if value := defined[name]; value != "" {
			parts = append(parts, value)
		}
	}
	return strings.Join(parts, ".")
}

// mpiFile is in the directory of each library: its MPI and version, as --describe prints them.
const mpiFile = "mpi"

// installedMPIs lists the libraries, by default those beside this program: in lib, lib64
// or, as Debian has it, lib/x86_64-linux-gnu.
func installedMPIs(libdir string) ([]mpiName, error) {
	patterns := []string{filepath.Join(libdir, "goscr/*", mpiFile)}
	where := libdir
	if libdir == "" {
		self, err := os.Executable()
		if err == nil {
			self, err = filepath.EvalSymlinks(self)
		}
		if err != nil {
			return nil, err
		}
		where = filepath.Dir(filepath.Dir(self))
		patterns = []string{filepath.Join(where, "lib*/goscr/*", mpiFile), filepath.Join(where, "lib/*/goscr/*", mpiFile)}
	}
	all := []mpiName{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			dir := filepath.Dir(path)
			mpi, version, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
			m := mpiName{filepath.Base(dir), dir, mpi, version}
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				m.Dir = real // lib64 may be a link to lib
			}
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no library is installed below %s (lib/goscr/*/%s)", where, mpiFile)
	}
	return all, nil
}

// chooseMPI returns the library for an MPI: of the same version, or the only one whose
// version has the same first number.
func chooseMPI(of mpiName, all []mpiName) (mpiName, error) {
	major := func(m mpiName) string { first, _, _ := strings.Cut(m.Version, "."); return first }
	var same, near []mpiName
	var names []string
	for _, m := range all {
		names = append(names, fmt.Sprintf("%s (%s %s)", m.Name, m.MPI, m.Version))
		if m.MPI != of.MPI {
			continue
		}
		if m.Version == of.Version {
			same = append(same, m)
		}
		if major(m) == major(of) {
			near = append(near, m)
		}
	}
	switch {
	case len(same) > 0:
		return same[0], nil
	case len(near) == 1:
		return near[0], nil
	case len(near) > 1:
		return mpiName{}, fmt.Errorf("several libraries are for %s, none for its version %s: %s", of.MPI, of.Version, strings.Join(names, ", "))
	}
	return mpiName{}, fmt.Errorf("no library is for %s %s; installed: %s; make and make install, with MPICC=<its mpicc>, add one", of.MPI, of.Version, strings.Join(names, ", "))
}
