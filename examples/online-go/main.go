//go:build mpi && ulfm

package main

/*
#cgo CFLAGS: -std=gnu99 -I${SRCDIR}/../online
#include <stdbool.h>
#include "rod.h"
#include "repair.h"

int compute(MPI_Comm ranks, int repairs); // exported by rod.go

static struct rod r;

static void begin(MPI_Comm ranks) { hot(&r, ranks); }
static int advance(MPI_Comm ranks) { return one_step(&r, ranks); }
static int result(MPI_Comm ranks) { return print_result(&r, ranks); }
static int copy(const char *file, bool writes) { return transfer(&r, file, writes ? "wb" : "rb"); }
static void perhaps_die(int repairs) { may_die(&r, repairs); }

static struct rod *mine(void) { return &r; }
static struct options *options(void) { return &given; }
static void tell(const char *what, int64_t number) { say(r.rank, what, number); }

static void start(int argc, char **argv)
{
    read_options(argc, argv);
    compute_to_the_end(argv, compute);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/goscr/goscr/mpi/system"
)

func main() {
	err := system.Init()
	if err == nil {
		argv := make([]*C.char, len(os.Args)+1)
		for i, arg := range os.Args {
			argv[i] = C.CString(arg)
		}
		C.start(C.int(len(os.Args)), &argv[0])
		err = system.Finalize()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "online-go:", err)
		os.Exit(1)
	}
}

// The rod of this rank, see rod.h.

func begin(ranks unsafe.Pointer)        { C.begin(*(*C.MPI_Comm)(ranks)) }
func advance(ranks unsafe.Pointer) bool { return C.advance(*(*C.MPI_Comm)(ranks)) != 0 }
func result(ranks unsafe.Pointer) bool  { return C.result(*(*C.MPI_Comm)(ranks)) != 0 }
func rank() int                         { return int(C.mine().rank) }
func step() int64                       { return int64(C.mine().step) }
func continueAt(step int64)             { C.mine().step = C.int64_t(step) }
func mayDie(repairs int)                { C.perhaps_die(C.int(repairs)) }
func last() int64                       { return int64(C.options().steps) }
func isDue() bool                       { return step()%int64(C.options().every) == 0 }
func nodes() string                     { return C.GoString(C.options().nodes) } // "": none are simulated
func say(what string, number int64) {
	text := C.CString(what)
	defer C.free(unsafe.Pointer(text))
	C.tell(text, C.int64_t(number))
}

func save(path string) error { return transfer(path, true, "written") }
func load(path string) error { return transfer(path, false, "read") }

// transfer writes the rod to a file, or reads it. done says which, for the error.
func transfer(path string, writes bool, done string) error {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	if C.copy(text, C.bool(writes)) == 0 {
		return fmt.Errorf("%s cannot be %s", path, done)
	}
	return nil
}
