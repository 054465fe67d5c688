# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 60 s
#
# Programs with variables, by VELOC's interface: variables.c loses nodes, with and without a persistent directory,
# in the foreground and in the background; variables.cpp has no communicator, and no MPI. Where the sources of VELOC
# are beside the project, its own test programs run unchanged.
. "$(dirname "$0")/lib.bash"

persistent=$WORK/persistent scratch=$TESTBED_DIR/local
is "a program in C" "$MPICC" -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -I"$BUILD" -o "$WORK/variables" "$ROOT/test/scripts/variables.c" \
    -L"$BUILD" -lveloc-client -Wl,-rpath,"$BUILD"
is "a program in C++" "mpicxx.$MPI" -std=c++11 -Wall -Wextra -Werror -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$BUILD" -o "$WORK/variables_cpp" \
    "$ROOT/test/scripts/variables.cpp" -L"$BUILD" -lveloc-client -Wl,-rpath,"$BUILD"

begin() { # KEY=VALUE...: an empty persistent directory, and a configuration with these keys
    "$TESTBED" wipe
    rm -rf "$persistent"
    mkdir "$persistent"
    printf '%s\n' "scratch = $scratch" "persistent = $persistent" "$@" >"$WORK/cfg"
}
job() { # [PROGRAM ARGUMENT...]: output in $WORK/out and $WORK/err
    (cd "$WORK" && exec "$TESTBED" run -n 4 --per-node 1 --mpi "$MPI" --timeout 300 --env SCR_JOB_ID="veloc$$" -- "$@") >"$WORK/out" 2>"$WORK/err" </dev/null
}
variables() { job "$WORK/variables" "$WORK/cfg" "$@"; }
right() { # LINE...: the job has printed these, and nothing that is wrong
    local line
    for line; do
        grep -qx "$line" "$WORK/out" || { echo "no line '$line':"; tail -n 40 "$WORK/out" "$WORK/err"; return 1; }
    done
    ! grep -q WRONG "$WORK/out" && ! grep -qE 'internal error|panic|goroutine' "$WORK/err" || { tail -n 40 "$WORK/out" "$WORK/err"; return 1; }
}

is "four nodes, and two spares" "$TESTBED" up 4 2

# Only the caches have the versions: each name has its newest although the other is written more often.
begin mode=sync persistent_interval=-1 scratch_versions=1
variables 20 die 2 8
is "sync, caches only: a rank dies" right 'start -1 -1' 'step 8'
"$TESTBED" lose node1 2>/dev/null
variables 12
is "... a node is lost with it: both names are rebuilt" right 'start 8 6' 'step 12' 'end 12 right'
is "... and the persistent directory has no file of them" same "" "$(find "$persistent" -name '*.dat')"

begin mode=async max_versions=2 scratch_versions=3
variables 20 die 1 7
is "async: a rank dies while the last version may be under way" right 'start -1 -1' 'step 7'
"$TESTBED" lose node0 2>/dev/null
variables 12
is "... and a node is lost: the newest that all ranks can restart" grep -qxE 'start [67] 6' "$WORK/out"
is "... and the program continues" right 'step 12' 'end 12 right'
is "... two versions stay for each name" same "field-0-11.dat field-0-12.dat grows-0-1000.dat grows-0-4000.dat rare-0-12.dat rare-0-9.dat" \
    "$(find "$persistent" -name '*-0-*.dat' -printf '%f\n' | LC_ALL=C sort | paste -sd ' ')"
"$TESTBED" wipe
variables 13
is "... all nodes are new: it starts from the persistent directory" right 'start 12 12' 'end 13 right'
is "the header of a file is VELOC's" same "2 0 4 1 319992" \
    "$(od -An -v -tu4 -N32 "$persistent/field-1-13.dat" | tr -s ' \n' ' ' | awk '{ print $1, $3, $4, $6, $7 }')"

# What VELOC leaves is files without an index.
begin
variables 3
rm -r "$persistent/.scr" && "$TESTBED" wipe
variables 4
is "files without an index, as VELOC leaves them" right 'start 3 3' 'end 4 right'
truncate -s -1 "$persistent/field-2-4.dat" && rm -r "$persistent/.scr" && "$TESTBED" wipe
variables 5
is "... of which one is short" right 'start 3 3' 'end 5 right'

begin mode=wrong
variables 1
is "a configuration that is wrong" same "1 no init" "$(grep -c 'mode = wrong: it is sync or async' "$WORK/err") $(sort -u "$WORK/out")"
job "$WORK/variables" "$WORK/none" 1
is "a configuration that is not there" same "no init" "$(sort -u "$WORK/out")"

begin
single() { # first|again: three processes, in one directory, without a launcher
    local id list=()
    for id in 0 1 2; do
        SCR_JOB_ID="veloc$$" timeout 300 "$TESTBED" exec node2 "$WORK/variables_cpp" $id "$WORK/cfg" "$1" >"$WORK/out.$id" 2>&1 &
        list+=($!)
    done
    wait "${list[@]}"
    grep -qx "end right" "$WORK/out.0" && grep -qx "end right" "$WORK/out.1" && grep -qx "end right" "$WORK/out.2" || { cat "$WORK"/out.?; return 1; }
}
is "processes without a communicator, beside each other" single first
is "... restart" single again
"$TESTBED" wipe
is "... and from the persistent directory" single again

# The program of the page.
sed -n '/^```c$/,/^```$/p' "$ROOT/docs/variables.md" | grep -v '^```' >"$WORK/page.c"
is "the program of docs/variables.md" "$MPICC" -std=c99 -Wall -Wextra -Werror -I"$BUILD" -o "$WORK/page" "$WORK/page.c" -L"$BUILD" -lveloc-client -Wl,-rpath,"$BUILD"
begin max_versions=3
cp "$WORK/cfg" "$WORK/veloc.cfg"
is "... runs" job "$WORK/page"
is "... and again" job "$WORK/page"
is "... with three versions" same "model-0-100.dat model-0-80.dat model-0-90.dat" "$(find "$persistent" -name 'model-0-*' -printf '%f\n' | LC_ALL=C sort | paste -sd ' ')"

# The example, beside the one with files: a rank is killed, a node is lost, and the result is the same.
is "heat with variables" make -s --no-print-directory -C "$ROOT" BUILD="$BUILD" MPICC="$MPICC" "$BUILD/heat-variables" "$BUILD/heat"
begin
is "... and heat with files" job env SCR_PREFIX="$persistent" "$BUILD/heat" -x 201 -y 201 -s 1500 -c 0 -o "$WORK/heat.files"
heat() { job "$BUILD/heat-variables" "$WORK/cfg" 201 1500 "$WORK/heat.variables"; }
strike() { # kills a rank after some checkpoints; 75: the job has ended before that
    local heat
    begin mode=sync persistent_interval=-1
    rm -f "$WORK/heat.variables" "$WORK/out"
    heat &
    heat=$!
    within 60 grep -q 'checkpoint at step [3-9]00' "$WORK/out"
    running "$BUILD/heat-variables" | tail -n 1 | xargs -r kill -9
    wait $heat
    [ ! -e "$WORK/heat.variables" ] || return 75
}
is "... a rank is killed" struck strike
"$TESTBED" lose node3 2>/dev/null
is "... and its node is lost: it runs to the end" heat
is "... from a checkpoint" grep -qE '^restarted at step [1-9]' "$WORK/out"
is "... with the result of the program with files" cmp "$WORK/heat.files" "$WORK/heat.variables"

# Python, in a session of SCR's calls.
begin
python() { # FROM TO
    job env SCR_PREFIX="$persistent" PYTHONPATH="$BUILD" python3 "$ROOT/test/scripts/arrays.py" "$@"
    grep -qx "end $2" "$WORK/out" && ! grep -qE "Traceback|internal error" "$WORK/err" || { cat "$WORK/out" "$WORK/err"; return 1; }
}
is "arrays in Python" python 0 3
"$TESTBED" lose node1 2>/dev/null
is "... after the loss of a node" python 3 5
"$TESTBED" wipe
is "... and of all" python 5 6

archives=("$ROOT"/../shared/peers/veloc-*.tar.gz)
if [ -e "${archives[0]}" ]; then
    mkdir "$WORK/veloc" "$WORK/veloc/include"
    tar -xzf "${archives[0]}" -C "$WORK/veloc" --strip-components 1 --wildcards '*/test'
    rm -rf "$WORK/veloc/include"
    cp -r "$ROOT/bindings/veloc" "$WORK/veloc/include" # they include "include/veloc.h"
    # Fewer iterations; the program is not changed otherwise.
    sed -i 's/\(ITER_TIMES *\)[0-9]*/\1300/' "$WORK/veloc/test/heatdis.h"
    for program in heatdis_mem heatdis_file; do
        is "VELOC's $program" "$MPICC" -std=gnu99 -w -I"$WORK/veloc" -o "$WORK/$program" "$WORK/veloc/test/$program.c" -L"$BUILD" -lveloc-client -lm -Wl,-rpath,"$BUILD"
    done
    is "VELOC's heatdis_fault" "mpicxx.$MPI" -w -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$WORK/veloc" -o "$WORK/heatdis_fault" "$WORK/veloc/test/heatdis_fault.cpp" \
        -L"$BUILD" -lveloc-client -lm -Wl,-rpath,"$BUILD"
    steps() { grep -E '^Step' "$WORK/out" | tail -n 1; }
    for program in heatdis_mem heatdis_file; do
        begin mode=async
        job "$WORK/$program" 4 "$WORK/cfg"
        undisturbed=$(steps)
        is "$program ends" grep -q "^Execution finished" "$WORK/out"
        "$TESTBED" lose node3 2>/dev/null
        # It restarts from the last version, which is that of its end, unless that is removed.
        "$BUILD/scr_index" -p "$persistent" --drop heatdis-300 >"$WORK/drop" 2>&1 && rm -f "$persistent"/heatdis-*-300.dat
        "$TESTBED" wipe
        job "$WORK/$program" 4 "$WORK/cfg"
        is "... restarts at iteration 200" grep -q "found at iteration 200" "$WORK/out"
        is "... with the same result" same "$undisturbed" "$(steps)"
    done
    begin mode=sync persistent_interval=-1
    job "$WORK/heatdis_fault" 4 "$WORK/cfg"
    is "heatdis_fault aborts itself" bash -c '! grep -q "^Execution finished" "$1"' - "$WORK/out"
    "$TESTBED" lose node2 2>/dev/null
    job "$WORK/heatdis_fault" 4 "$WORK/cfg"
    is "... and continues after the loss of a node" bash -c 'grep -q "^Restart from iteration 100" "$1" && grep -q "^Execution finished" "$1" || { cat "$1" "$2"; false; }' - "$WORK/out" "$WORK/err"
fi
"$TESTBED" down
