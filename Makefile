# make            build libscr.so and the commands into $(BUILD)
# make install    ... and install them below $(DESTDIR)$(PREFIX)
# make examples   build the example programs into $(BUILD)
# make demo       show a job that loses a node and goes on; MPI=mpich for the other MPI
# make test       all tests, with each MPI there is
# make bench      measure
# make lint       gofmt, go vet, staticcheck
#
# A build is for one MPI, that of $(MPICC).  To have several side by side:
#     make BUILD=build/mpich MPICC=mpicc.mpich

PREFIX  ?= /usr/local
DESTDIR ?=
GO      ?= go
CFLAGS  ?= -O2 -g

# MPI=openmpi and MPI=mpich stand for Debian's names of these.
ifneq ($(filter openmpi mpich,$(MPI)),)
MPICC   ?= mpicc.$(MPI)
BUILD   ?= build/$(MPI)
export MPI
endif
MPICC   ?= mpicc
BUILD   ?= build

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0

out     := $(abspath $(BUILD))
map     := $(CURDIR)/cmd/libscr/libscr.map
warn    := -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra

export MPICC

.PHONY: all examples install demo test bench lint clean deps FORCE

all: $(out)/libscr.so $(out)/scr

deps:
	@scripts/deps

# Go knows best what is out of date.
FORCE:

# cgo would write a header of its own beside the library; scr.h is ours.
$(out)/libscr.so: FORCE | deps
	@mkdir -p $(out)
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) build -tags mpi -buildmode=c-shared -trimpath \
	    -ldflags "-extldflags '-Wl,-soname,libscr.so -Wl,--version-script=$(map)'" \
	    -o $@ ./cmd/libscr
	@rm -f $(out)/libscr.h
	@cp cmd/libscr/scr.h $(out)/scr.h

# The commands are one program under several names; it knows which.
$(out)/scr: FORCE | deps
	@mkdir -p $(out)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./cmd/scr
	@for name in $$($@ links); do ln -sf scr $(out)/$$name || exit 1; done

$(out)/heat: examples/heat/heat.c $(out)/libscr.so
	$(MPICC) $(warn) $(CFLAGS) -I$(out) -o $@ $< -L$(out) -lscr -lm -Wl,-rpath,'$$ORIGIN'

$(out)/heat-go: FORCE | deps
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) build -tags mpi -trimpath -o $@ ./examples/heat-go

examples: all $(out)/heat

install: all
	install -d $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include \
	    $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/doc/goscr
	install -m 755 $(out)/libscr.so $(DESTDIR)$(PREFIX)/lib/
	install -m 644 cmd/libscr/scr.h $(DESTDIR)$(PREFIX)/include/
	install -m 755 $(out)/scr $(DESTDIR)$(PREFIX)/bin/
	for name in $$($(out)/scr links); do \
	    ln -sf scr $(DESTDIR)$(PREFIX)/bin/$$name || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 LICENSE $(wildcard README.md docs/*.md) \
	    examples/heat/heat.c $(DESTDIR)$(PREFIX)/share/doc/goscr/

demo: all $(out)/heat
	@BUILD=$(out) scripts/demo

bench: all $(out)/bench
	@BUILD=$(out) scripts/bench

$(out)/bench: scripts/bench.c $(out)/libscr.so
	$(MPICC) $(warn) $(CFLAGS) -I$(out) -o $@ $< -L$(out) -lscr -Wl,-rpath,'$$ORIGIN'

test:
	@scripts/test

lint: | deps
	@files=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$files" ] || \
	    { echo "not formatted by gofmt:"; echo "$$files"; exit 1; }
	CGO_ENABLED=0 $(GO) vet ./...
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) vet -tags mpi ./...
	CGO_ENABLED=0 $(GO) run $(STATICCHECK) ./...
	CC='$(MPICC)' CGO_ENABLED=1 $(GO) run $(STATICCHECK) -tags mpi ./...

clean:
	rm -rf build
