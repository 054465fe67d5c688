# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: both MPIs, 140 s
#
# The library does not change a program's signals, children and limits.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
strict=(-std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD" "$here/signals.c" -ldl -lpthread)
is "signals.c builds" "$MPICC" -o "$WORK/signals" "${strict[@]}" -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
is "... to load the library later" "$MPICC" -DLOAD -rdynamic -o "$WORK/late" "${strict[@]}"

# The same program with a library that does nothing.
mkdir "$WORK/stub"
grep -o '^[a-z].*SCR_[A-Z][A-Za-z_]*(' "$BUILD/scr.h" | grep -o 'SCR_[A-Za-z_]*' | sort -u |
    sed 's/.*/int &(void); int &(void) { return 0; }/' >"$WORK/stub.c"
is "a stub library" cc -shared -fPIC -Wl,-soname,libscr.so -o "$WORK/stub/libscr.so" "$WORK/stub.c"

prefix=$WORK/prefix
"$TESTBED" up 2
job() { # RANKS PROGRAM ARG...
    local ranks=$1
    shift
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout 300 -n "$ranks" --env SCR_PREFIX="$prefix" \
        --env SCR_COPY_TYPE=XOR --env LIBRARY="$BUILD/libscr.so" "${vars[@]}" -- "$@") </dev/null
}
vars=()

# Records the exit status of a rank, because launchers only print that it was a signal.
cat >"$WORK/outcome" <<'END'
#!/bin/bash
# outcome FILE PROGRAM...: runs it, and writes its status to FILE
file=$1; shift
ulimit -c 0
"$@"
echo "status $?" >"$file"
END
chmod +x "$WORK/outcome"
outcome() { # DIRECTORY PART: how a part of signals ends with the library in that directory
    vars=(--env "LD_LIBRARY_PATH=$1")
    rm -f "$WORK/status"
    job 1 "$WORK/outcome" "$WORK/status" "$WORK/unbound" "$2" >"$WORK/out" 2>&1
    vars=()
    cat "$WORK/status"
    grep -e 'handler$' -e '^a pipe' "$WORK/out"
    # what Go prints when it ends a program
    grep -m 3 -e goroutine -e '^fatal error' -e '^SIG' "$WORK/out"
}
is "... linked so that it finds either library" "$MPICC" -o "$WORK/unbound" "${strict[@]}" -L"$BUILD" -lscr

for how in $(drawn 3 segv segv_sent term usr1 bus fpe pipe segv_within segv_sent_within term_within handled handled_within \
    bus_handled_within); do
    without=$(outcome "$WORK/stub" die_$how)
    is "without the library, die_$how ends in a way of its own" bash -c '[[ $1 == "status "* && $1 != "status 0" ]]' - "$without"
    is "with it, it ends in the same way" same "$without" "$(outcome "$BUILD" die_$how)"
done

part() { # RANKS PROGRAM NAME
    local name=$3
    [ "$2" != "$WORK/static" ] || name="static, $3"
    job "$1" "$2" "$3" >"$WORK/out" 2>&1
    sed -n "s/^\(ok\|not ok\) /\1 $name: /p; /^  /p" "$WORK/out"
    is "$name: comes to its end" bash -c '[ "$(grep -cx "end of $1" "$2")" = "$3" ] || { cat "$2"; false; }' - "$3" "$WORK/out" "$1"
}
ulimit -Sn 1000 # Go would raise this limit
for name in $(divided restored busy stacks any_instant own_faults waits_in_a_thread no_reader too_large children from_a_handler); do
    part 1 "$WORK/signals" $name
done
limit=$(ulimit -Ss)
ulimit -Ss unlimited # many clusters set this
part 1 "$WORK/signals" stacks
ulimit -Ss "$limit"
part 2 "$WORK/signals" cut_while_read
for name in unused outlived forked forked_before; do
    part 1 "$WORK/signals" $name
done
is "... and says so" grep -q "SCR_Init: called in a child that fork() has made" "$WORK/out"
vars=(--env SCR_FLUSH=1 --env SCR_FLUSH_ASYNC=1)
part 1 "$WORK/signals" takes_signals
part 1 "$WORK/signals" profiled
vars=()
# With any of the descriptors 0, 1 and 2 closed (x: none), and a thread that copies.
vars=(--env SCR_FLUSH=1 --env SCR_FLUSH_ASYNC=1)
for which in $(drawn 2 x 0 1 2 01 02 12 012); do
    job 1 "$WORK/signals" without_descriptors "$which" >"$WORK/out" 2>&1
    sed -n "s/^\(ok\|not ok\) /\1 without $which: /p; /^  /p" "$prefix/said"
    is "without $which: comes to its end" grep -qx "end of without_descriptors" "$prefix/said"
    is "... and no file has what the program has printed" bash -c '[ -f "$1/c/file" ] && ! grep -rl "what the program prints" "$@"' - "$prefix" "$TESTBED_DIR"
done
vars=()
# The static library is part of the program's code, but its faults and signals are its own.
is "signals.c builds with libscr.a" "$MPICC" -o "$WORK/static" "${strict[@]}" "$BUILD/libscr.a"
sync "$WORK/static" # pages that are not on the disk yet would count as memory that the program has changed
for name in $(divided unused any_instant own_faults takes_signals); do part 1 "$WORK/static" $name; done
part 2 "$WORK/static" cut_while_read
# Only the program is limited: the launcher may need more address space.
cat >"$WORK/limited" <<'END'
#!/bin/bash
ulimit -v 800000
exec "$@"
END
chmod +x "$WORK/limited"
job 1 "$WORK/limited" "$WORK/signals" no_room >"$WORK/out" 2>&1
is "under ulimit -v 800000 SCR_Init is an error" grep -q "^ok SCR_Init fails" "$WORK/out"
is "... which says what to do" grep -q "SCR_Init: the address space of the process is limited (ulimit -v)" "$WORK/out"
is "... and the program continues" grep -qx "end of no_room" "$WORK/out"
part 3 "$WORK/signals" at_limits
part 1 "$WORK/signals" no_threads
vars=(--env SCR_FLUSH=1 --env SCR_FLUSH_ASYNC=1 --env SCR_ENCODE_ASYNC=1)
part 2 "$WORK/signals" no_threads_later
part 2 "$WORK/signals" no_descriptors_later
for name in no_memory_later no_mappings_later; do
    part 2 "$WORK/signals" $name
    is "... and says so" grep -qE "the system refuses this process memory|no memory for a buffer of" "$WORK/out"
done
vars=()
part 1 "$WORK/late" restored

# The Go runtime traces its state (docs/go-runtime.md) by lines "SCHED 52ms: gomaxprocs=1
# ...", one each time its monitor wakes.
trace() { # VARIABLE...: prints the beginning of each line
    vars=(--env GODEBUG=schedtrace=1)
    for v in "$@"; do vars+=(--env "$v"); done
    job 1 "$WORK/signals" busy 2>&1 | grep -o 'SCHED [0-9]*ms: gomaxprocs=[0-9]*'
    vars=()
}
# Lines from before the library was initialized are ignored.
processors() { sed -n '/gomaxprocs=1$/,$s/.*gomaxprocs=//p' "$1" | sort -u | paste -sd ' '; }
trace GOMAXPROCS=8 >"$WORK/trace"
is "Go uses one processor, whatever GOMAXPROCS says" same 1 "$(processors "$WORK/trace")"
pages() { # GOMAXPROCS: that SCR_Init touches
    vars=(--env "GOMAXPROCS=$1")
    job 1 "$WORK/signals" touches 2>&1 | sed -n 's/^pages //p'
    vars=()
}
one=$(pages 1) many=$(pages 200)
is "... and makes nothing for others" bash -c '[ "$1" -gt 0 ] && [ "$2" -lt $(($1 + 500)) ] || { echo "$@"; exit 1; }' - "$one" "${many:-none}"
# A copy may be too short for a line.
found=''
for ((i = 0; i < 10; i++)); do
    trace GOMAXPROCS=8 SCR_FLUSH=1 SCR_FLUSH_ASYNC=1 >"$WORK/trace"
    found=$(echo "$found $(processors "$WORK/trace")" | grep -o '[0-9]*' | sort -u | paste -sd ' ')
    case $found in ''|1) ;; *) break ;; esac
done
is "it uses four while a thread copies" same "1 4" "$found"
