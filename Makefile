# use
#   make             build the libraries and the commands into $(BUILD)
#   make install     copy them to $(PREFIX), without Go: DESTDIR, LIBDIR, MANDIR; MPI_NAME=openmpi-5, DEFAULT=yes
#   make uninstall   remove what make install has copied, with the same variables
#   make deps        install the packages of the system that a build needs; make alone says which
#   make examples    build the example programs into $(BUILD)
#   make demo        show a job that loses a node and continues; MPI=mpich for the other MPI
#   make demo-slurm  show a batch job that looks after itself; needs root
#   make help        print these lines
#
# develop (CONTRIBUTING.md)
#   make quick       what to run while you work: 10 to 90 s, the first time 2 minutes; PKG=./internal/job/... narrows it
#   make test        all kinds of tests, samples of their cases: 20 minutes; TEST_SEED=n, MINUTES=m to start nothing later
#   make test-all    everything, with both MPIs, and a part of each campaign
#   make test-times  what took longest in the last run
#   make lint        gofmt, go vet, staticcheck, shellcheck: at most 60 s with warm caches
#   make generate    write what is generated from tables in the code: docs/config.md, man pages, values.go
#   make structure   measure how the code is laid out
#   make bench       measure; MIB=16 for each rank, COUNT=3 of each; PARTS=veloc PEERS=DIR: variables, beside VELOC
#   make compare     measure beside SCR 3.1, built from the source archives in PEERS=DIR; MIB=16, COUNT=3, RANKS=16
#   make pictures    make the pictures of a report and of performance in the pages again
#   make clean       remove the directory build
#
# campaigns (they take hours, but for what their variables narrow)
#   make crash       kill at every system call that changes a file; SEED=, ONLY=xor-, CASE=xor-sync-whole:17
#   make power       cut the power at every change and every sync; POWER_CUTS=250: so many of each job
#   make losses      every loss, every kill and every error of a file system that the tests try a sample of
#   make soak        1,000 random jobs against a model; SOAK_JOBS=n, SOAK_SEED=first; SEED=n: the story of one
#   make halo        200 restarts with messages in transit; SEED=n, CHECKPOINTS=n, MPI=mpich, THREADS=0|1|MPI
#   make test-online  60 jobs in which ranks die and others continue; RUNS=n, SEED=first, FENIX=archive; needs root
#   make fuzz        all fuzz targets, FUZZTIME=1m each; ONLY=TEXT
#
# release
#   make packages       deb and rpm packages of the libraries for Open MPI and for MPICH, in build/packages
#   make test-packages  install, use and remove them in a new Debian as this one, and in Debian 13: minutes; needs root
#   make wheel          the module for Python, in build/wheel
#   make site           the documentation as a web site, in build/site: it needs no server
#   make dist           a source archive, with all modules, in build/dist: it builds without a network
#   make release     all of these and checksums, of the last commit, in build/release: the same bytes each time
#
# A build is for one MPI, that of $(MPICC).  To have several side by side:
#     make BUILD=build/mpich MPICC=mpicc.mpich && sudo make install BUILD=build/mpich

PREFIX  ?= /usr/local
DESTDIR ?=
LIBDIR  ?= $(PREFIX)/lib
MANDIR  ?= $(PREFIX)/share/man
GO      ?= go
CFLAGS  ?= -O2 -g

# gfortran, or another name of it; that of an MPI is for the examples only. Without one there is nothing for Fortran.
ifeq ($(origin FC),default)
FC      := gfortran
endif
fortran := $(shell command -v '$(firstword $(FC))')

# MPI=openmpi and MPI=mpich stand for Debian's names of these.
ifneq ($(filter openmpi mpich,$(MPI)),)
MPICC   ?= mpicc.$(MPI)
BUILD   ?= build/$(MPI)
export MPI
endif
MPICC   ?= mpicc
BUILD   ?= build
MPICXX  ?= $(subst mpicc,mpicxx,$(MPICC))
MPIFC   ?= $(subst mpicc,mpifort,$(MPICC))

# mpi,faults: a library of test/scripts/43-panics.sh, which panics where that wants it to.
TAGS    ?= mpi

out     := $(abspath $(BUILD))
libscr  := $(CURDIR)/cmd/libscr
# REPRODUCIBLE=1, of scripts/release: Go's identifier of a build, by which it knows that nothing has to be linked again, would have the paths of linker scripts.
go_start := -X=runtime.godebugDefault=asyncpreemptoff=1,containermaxprocs=0 $(if $(REPRODUCIBLE),-buildid=)
warn    := -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra

# Libraries are the same wherever they are built: paths in what debuggers read are those below the sources, as with Go's -trimpath.
here    := -ffile-prefix-map=$(CURDIR)=goscr

# Recipes that build call version, and no others: those of install run as root.
# Libraries and commands read etc/scr.conf of the directory in which they are installed. Where
# they find none they read that of SYSCONFDIR, by default of PREFIX/etc, and then /etc/scr.conf.
version  = -X=github.com/goscr/goscr/internal/sys/version.stamped=$(shell scripts/version) \
    -X=github.com/goscr/goscr/internal/config.builtFor=$(or $(SYSCONFDIR),$(PREFIX)/etc)/scr.conf

export MPICC

.PHONY: all examples install uninstall packages test-packages release dist site wheel demo demo-slurm quick test test-all test-times test-online crash losses power soak halo fuzz bench compare pictures structure generate lint clean deps check FORCE

for_fortran := $(out)/libscrf.so $(out)/scr_cr.mod $(out)/libscrf.a

all: $(out)/libscr.so $(out)/libscr_cr.so $(out)/libveloc-client.so $(out)/libscr.a $(out)/scr.py $(out)/scr_cr.py $(out)/scr_image \
    $(out)/scr $(out)/scripts $(out)/mpi $(if $(fortran),with_fortran,without_fortran)

with_fortran: FORCE $(for_fortran)
	@rm -f $(out)/without-fortran

# make install reads the file. What an earlier build has left would be of another version.
without_fortran: FORCE | check
	@mkdir -p $(out)
	@rm -f $(for_fortran) $(out)/scr.mod $(out)/scrf.h
	@touch $(out)/without-fortran
	@echo 'make: without a Fortran compiler ($(FC)): libscrf.so and the modules scr and scr_cr are left out; make deps installs gfortran' >&2

# The comment at the top of this file is the help.
.PHONY: help
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//; p' Makefile

deps:
	@scripts/deps --install fortran

# What is missing is installed for goals that are asked to bring everything, and only named for others.
demo demo-slurm: install_deps = --install

check:
	@scripts/deps $(install_deps)

# These are always built: Go finds out itself what is out of date.
FORCE:

# cgo writes a header of its own beside the library, which scr.h replaces.  Go's
# scheduler must not send SIGURG to the threads of a program (docs/go-runtime.md).
$(out)/libscr.so: FORCE | check
	@mkdir -p $(out)
	@for f in start.ld libscr.map; do [ ! $(libscr)/$$f -nt $@ ] || rm -f $@; done # Go does not look at them
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) build -tags $(TAGS) -buildmode=c-shared -trimpath \
	    -ldflags "$(go_start) $(version) -extldflags \
	        '-Wl,-soname,libscr.so -Wl,--version-script=$(libscr)/libscr.map -Wl,-T,$(libscr)/start.ld -Wl,--wrap=pthread_create -Wl,--wrap=pthread_getattr_np -Wl,--wrap=mmap -Wl,--wrap=malloc'" \
	    -o $@ ./cmd/libscr
	@rm -f $(out)/libscr.h
	@cp cmd/libscr/scr.h $(out)/scr.h

# For Fortran: the functions under Fortran's names, and a module. It has the names of scr.h, too, so
# that a program in both languages can be linked with it alone, as with that of SCR 3.1; the dynamic
# linker looks for these names in libscr.so (--filter).
$(out)/libscrf.so: bindings/fortran/scrf.c bindings/fortran/scr.f90 bindings/fortran/scrf.h bindings/fortran/text.h \
    bindings/fortran/libscrf.map cmd/libscr/scr.h $(out)/libscr.so | check
	@mkdir -p $(out)/obj
	$(MPICC) $(warn) $(here) $(CFLAGS) -fPIC -I$(out) -c -o $(out)/obj/scrf.o bindings/fortran/scrf.c
	$(FC) -std=f2018 -Wall $(if $(findstring gfortran,$(FC)),$(here)) -O2 -g -fPIC -J$(BUILD) -c -o $(out)/obj/scrmod.o bindings/fortran/scr.f90
	grep -oE '\bSCR_[A-Z][A-Za-z_]*\(' cmd/libscr/scr.h | tr -d '(' | sort -u | awk '{ print ".globl " $$1 "\n.type " $$1 ", %function\n" $$1 ":" } \
	    END { print ".long 0\n.section .note.GNU-stack,\"\",%progbits" }' >$(out)/obj/scrnames.s
	$(MPICC) -c -o $(out)/obj/scrnames.o $(out)/obj/scrnames.s
	$(MPICC) -shared -o $@ $(out)/obj/scrf.o $(out)/obj/scrmod.o $(out)/obj/scrnames.o -L$(out) -lscr -Wl,--as-needed \
	    -Wl,--filter=libscr.so -Wl,-soname,libscrf.so -Wl,-rpath,'$$ORIGIN' -Wl,--version-script=bindings/fortran/libscrf.map
	@cp bindings/fortran/scrf.h $(out)/

# For programs that take part in checkpoints. It is C only: all that it knows is in libscr.so, which is beside it.
$(out)/libscr_cr.so: $(wildcard cr/lib/*.c cr/lib/*.h cr/lib/*.def) cr/lib/libscr_cr.map bindings/fortran/text.h cmd/libscr/inside.h $(out)/libscr.so | check
	$(MPICC) $(warn) $(here) $(CFLAGS) -fPIC -shared -Icr/lib -Ibindings/fortran -Icmd/libscr -o $@ $(filter %.c,$^) -L$(out) -lscr -ldl -lpthread \
	    -Wl,--no-undefined -Wl,-soname,libscr_cr.so -Wl,-rpath,'$$ORIGIN' -Wl,--version-script=cr/lib/libscr_cr.map
	@cp cr/lib/scr_cr.h $(out)/

# For programs that name variables, with VELOC's interface. It is C only: all that it knows is in libscr.so, which is beside it.
$(out)/libveloc-client.so: bindings/veloc/veloc.c $(wildcard bindings/veloc/*.h bindings/veloc/*.hpp bindings/veloc/veloc/*.h) cmd/libscr/variables.h \
    bindings/veloc/libveloc-client.map $(out)/libscr.so | check
	$(MPICC) $(warn) $(here) $(CFLAGS) -fPIC -shared -Ibindings/veloc -Icmd/libscr -o $@ $(filter %.c,$^) -L$(out) -lscr \
	    -Wl,--no-undefined -Wl,-soname,libveloc-client.so -Wl,-rpath,'$$ORIGIN' -Wl,--version-script=bindings/veloc/libveloc-client.map
	@mkdir -p $(out)/veloc
	@cp bindings/veloc/veloc.h bindings/veloc/veloc.hpp $(out)/
	@cp bindings/veloc/veloc/defs.h $(out)/veloc/

# A program for programs that know nothing of checkpoints. It is for one MPI.
$(out)/scr_image: FORCE | check
	@mkdir -p $(out)
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) build -tags mpi -trimpath -ldflags '-s -w $(go_start) $(version)' -o $@ ./cr/scrimage

# The interfaces of scr_cr.h for Fortran: no object is made.
$(out)/scr_cr.mod: bindings/fortran/scr_cr.f90 | check
	@mkdir -p $(out)
	$(FC) -std=f2018 -Wall -fsyntax-only -J$(out) $<
	@touch $@ # gfortran leaves a file that would be the same

# Without -extar, Go asks $(MPICC) for its ar, and takes a warning of Open MPI's wrapper for a part of the name.
# The same for static linking. libscrf.a has all of libscr.a: a program links one of them.
$(out)/libscr.a: FORCE | check
	@mkdir -p $(out)/obj
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) build -tags mpi -buildmode=c-archive -trimpath -ldflags '-extar=ar $(go_start) $(version)' \
	    -o $(out)/obj/go.a ./cmd/libscr
	@rm -f $(out)/obj/go.h
	@scripts/archive $(out)/obj/go.a $@

$(out)/libscrf.a: $(out)/libscr.a $(out)/libscrf.so
	@scripts/archive $(out)/obj/go.a $@ $(out)/obj/scrf.o $(out)/obj/scrmod.o

$(out)/scr.py $(out)/scr_cr.py: $(out)/%: bindings/python/%
	@mkdir -p $(out)
	@cp $< $@

# The commands are one program with several names.
$(out)/scr: FORCE | check
	@mkdir -p $(out)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w $(version)' -o $@ ./cmd/scr
	@for name in $$($@ links); do ln -sf scr $(out)/$$name || exit 1; done

# What make install has to know of the build: the MPI's name and version, and goscr's.
$(out)/mpi: $(out)/scr
	@$(out)/scr mpi --mpicc '$(MPICC)' --describe > $@.new && mv $@.new $@
	@scripts/version > $(out)/version

# The batch scripts that users copy: one template makes all of them.
$(out)/scripts: $(wildcard scripts/launchers/*)
	@mkdir -p $@
	CGO_ENABLED=0 $(GO) run ./scripts/launchers $@
	@touch $@

$(out)/heat: examples/heat/heat.c $(out)/libscr.so
	$(MPICC) $(warn) $(CFLAGS) -I$(out) -o $@ $< -L$(out) -lscr -lm -Wl,-rpath,'$$ORIGIN'

$(out)/heat-go: FORCE | check
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) build -tags mpi -trimpath -o $@ ./examples/heat-go

# Without MPI's own C++ interface, which later MPIs do not have.
$(out)/heat-cpp: examples/heat-cpp/heat.cpp $(out)/libscr.so
	@scripts/deps c++
	$(MPICXX) -std=c++11 -Wall -Wextra -O2 -g -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I$(out) -o $@ $< \
	    -L$(out) -lscr -Wl,-rpath,'$$ORIGIN'

$(out)/heat-fortran: examples/heat-fortran/heat.f90 $(out)/libscrf.so
	@mkdir -p $@.mod
	$(MPIFC) -std=f2018 -Wall -O2 -g -I$(out) -J$@.mod -o $@ $< -L$(out) -lscrf -Wl,-rpath,'$$ORIGIN'
	@rm -r $@.mod

$(out)/heat-variables: examples/heat-variables/heat.c $(out)/libveloc-client.so
	$(MPICC) $(warn) $(CFLAGS) -I$(out) -o $@ $< -L$(out) -lveloc-client -lm -Wl,-rpath,'$$ORIGIN'

$(out)/heat-self: examples/heat-self/heat.c $(out)/libscr_cr.so
	$(MPICC) $(warn) $(CFLAGS) -I$(out) -o $@ $< -L$(out) -lscr_cr -lscr -Wl,--export-dynamic -Wl,-rpath,'$$ORIGIN'

examples: all $(out)/heat $(out)/heat-self $(out)/heat-variables $(out)/heat-go $(out)/heat-cpp $(if $(fortran),$(out)/heat-fortran)

install uninstall: export DESTDIR := $(DESTDIR)
install uninstall: export PREFIX := $(PREFIX)
install uninstall: export LIBDIR := $(LIBDIR)
install uninstall: export MANDIR := $(MANDIR)
install uninstall: export MPI_NAME := $(MPI_NAME)
install uninstall: export DEFAULT := $(DEFAULT)

install:
	@BUILD='$(out)' scripts/install

uninstall:
	@BUILD='$(out)' scripts/install --remove

into = build
packages:
	@scripts/deps $(install_deps) fortran
	@$(MAKE) --no-print-directory MPI=openmpi MPICC=mpicc.openmpi BUILD=$(into)/openmpi all
	@$(MAKE) --no-print-directory MPI=mpich MPICC=mpicc.mpich BUILD=$(into)/mpich all
	@BUILDS='$(into)/openmpi $(into)/mpich' scripts/packages $(into)/packages $(FORMATS)

# Needs root, and the network for new Debians; or ROOT=, an archive of one as this system is.
test-packages: packages
	@scripts/deps --install packages wheel
	@scripts/debian13 make --no-print-directory packages into=build/debian13 FORMATS=deb
	@scripts/test-packages build/packages build/debian13/packages $(ROOT)

dist:
	@scripts/dist build/dist

# It has to be empty, so that nothing of another release is in it.
release:
	@scripts/deps $(install_deps) openmpi mpich fortran packages wheel
	@scripts/release build/release

site:
	@CGO_ENABLED=0 $(GO) run ./scripts/site . $(out)/site

wheel:
	@scripts/deps $(install_deps) wheel
	@scripts/wheel build/wheel

demo: all $(out)/heat
	@BUILD=$(out) scripts/demo

demo-slurm: all $(out)/heat
	@scripts/deps --install openmpi slurm
	@BUILD=$(out) scripts/demo-slurm

# PEERS is for part veloc: a directory with the source archives that scripts/peers needs, and with VELOC's. Without it there is no column for VELOC.
bench: all $(out)/bench $(out)/bench-variables $(out)/pingpong
	@$(if $(PEERS),scripts/peers '$(PEERS)' $(out)/peers || :)
	@BUILD=$(out) $(if $(PEERS),PEERS_BUILD=$(out)/peers) scripts/bench $(or $(MIB),256) $(or $(COUNT),11)

# PEERS is a directory with the source archives of SCR 3.1; scripts/peers says which.
compare: all $(out)/bench
	@scripts/peers '$(or $(PEERS),peers)' $(out)/peers
	$(MPICC) $(warn) $(CFLAGS) -I$(out)/peers/include -Wl,--export-dynamic -o $(out)/peers/bench scripts/bench.c -L$(out)/peers/lib -lscr -ldl -lpthread -Wl,-rpath,$(out)/peers/lib
	@BUILD=$(out) PEERS_BUILD=$(out)/peers scripts/compare $(MIB) -- $(or $(COUNT),5)

$(out)/bench: scripts/bench.c scripts/bench.h $(out)/libscr.so
	$(MPICC) $(warn) $(CFLAGS) -I$(out) -Wl,--export-dynamic -o $@ $< -L$(out) -lscr -ldl -lpthread -Wl,-rpath,'$$ORIGIN'

# The same program runs with VELOC's library, so it has no path of one.
$(out)/bench-variables: scripts/bench-variables.c scripts/bench.h $(out)/libveloc-client.so
	$(MPICC) $(warn) $(CFLAGS) -I$(out) -Wl,--export-dynamic -o $@ $< -L$(out) -lveloc-client

$(out)/pingpong: scripts/pingpong.c | all
	$(MPICC) $(warn) $(CFLAGS) -Wl,--export-dynamic -o $@ $<

# test/run is the program behind these; go doc ./test/run says what it does.
tests = scripts/test

quick: | check
	@$(tests) -quick $(PKG)

test:
	@$(tests) $(if $(MINUTES),-minutes '$(MINUTES)') $(ONLY)

test-all:
	@$(tests) -all

test-times:
	@$(tests) -times

$(out)/crash: FORCE | check
	@mkdir -p $(out)
	CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./test/crash

# Programs of several tests, which copy them: the library is found where it is.
$(out)/steps $(out)/modes: $(out)/%: test/scripts/%.c $(out)/libscr.so
	$(MPICC) $(warn) -Werror $(CFLAGS) -I$(out) -o $@ $< -L$(out) -lscr -lrt -Wl,-rpath,$(out)

crash: all $(out)/crash $(out)/steps
	@$(out)/crash -steps $(out)/steps -mpi $(or $(MPI),openmpi) -state $(out)/crash.state -failed $(out)/crash.failed \
	    $(if $(SEED),-seed '$(SEED)') $(if $(ONLY),-only '$(ONLY)') $(if $(CASE),-case '$(CASE)')

# Needs FUSE; the tests say so where there is none.
power: | check
	@scripts/deps $(install_deps) filesystems
	TEST_SIZE=campaign POWER_CUTS='$(POWER_CUTS)' CGO_ENABLED=0 $(GO) test ./internal/session -run TestPower -count 1 -timeout 0 -v

losses: | check
	@scripts/deps $(install_deps) filesystems
	TEST_SIZE=campaign CGO_ENABLED=0 $(GO) test ./internal/session -run 'TestFaults|TestKilled' -count 1 -timeout 0 -v
	TEST_SIZE=campaign CGO_ENABLED=0 $(GO) test ./internal/redundancy/xor ./internal/redundancy/partner ./internal/redundancy/rs -count 1 -timeout 0 -v

$(out)/soak: FORCE | check
	@mkdir -p $(out)
	CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./test/soak

soak: $(out)/soak
	@$(out)/soak $(if $(SEED),-seed '$(SEED)' -jobs 1 -tell,-seed '$(or $(SOAK_SEED),1)' -jobs '$(or $(SOAK_JOBS),1000)')

halo:
	@export HALO_SEEDS='$(or $(SEED),1)' HALO_CHECKPOINTS='$(or $(CHECKPOINTS),200)' DRAW_CHECKPOINTS='$(or $(CHECKPOINTS),200)' TEST_SEED='$(or $(SEED),1)' DRAW_THREADS='$(THREADS)' && \
	    $(tests) -mpi '$(or $(MPI),openmpi)' 44-quiet 44-draw

# In a system of its own, whose MPI has ULFM: that of the machine need not.
test-online:
	@FENIX='$(FENIX)' scripts/test-online '$(or $(RUNS),60)' '$(or $(SEED),1)'

FUZZTIME ?= 1m

fuzz:
	@scripts/fuzz '$(FUZZTIME)' '$(ONLY)'

pictures: | check
	@scripts/deps $(install_deps) chromium gnuplot
	cd docs/img && gnuplot blocked.gp complete.gp
	@# gnuplot knows only one background: a browser in dark mode inverts the picture, but keeps the hues.
	cd docs/img && sed -i -e '/^<title>Gnuplot/d' -e '0,/^<g /s//<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.93) hue-rotate(180deg) } }<\/style>\n&/' blocked.svg complete.svg
	GOSCR_PICTURES='$(CURDIR)/docs/img' CGO_ENABLED=0 $(GO) test ./internal/observe/account/page -run TestBrowser_Picture -count 1

# Files that call each other, fields, floors: docs/architecture.md, docs/packages.md.
generate:
	@CGO_ENABLED=0 $(GO) generate ./internal/config ./cmd/scr

structure:
	@$(GO) test ./test/structure -count=1 -v

lint:
	@BUILD='$(out)' MPICC='$(MPICC)' GO='$(GO)' scripts/lint

clean:
	rm -rf build
