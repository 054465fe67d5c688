# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 150 s
#
# The C interface under mpirun, on simulated nodes: every call used correctly and
# wrongly (api.c), and files of all sizes and numbers, lost and rebuilt (steps.c).
. "$(dirname "$0")/lib.bash"

strict=(-std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -O2 -I"$BUILD")
here=$ROOT/test/scripts
is "api.c builds" "$MPICC" "${strict[@]}" -o "$WORK/api" "$here/api.c" -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
is "the program steps" client steps
prefix=$WORK/prefix
fresh() { rm -rf "$prefix"; mkdir "$prefix"; "$TESTBED" wipe; }
job() { # SECONDS OPTION... -- PROGRAM...: testbed run with these options, in the prefix directory
    local limit=$1
    shift
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout "$limit" --env SCR_PREFIX="$prefix" \
        --env SCR_COPY_TYPE=XOR "$@") </dev/null
}

# part NAME OPTION...: runs a part of api.c, whose checks are counted.
part() {
    local name=$1
    shift
    job 60 -n 4 "$@" -- "$WORK/api" "$name" >"$WORK/out" 2>&1
    status=$?
    sed -n "s/^\(ok\|not ok\) /\1 $name: /p; /^  /p" "$WORK/out"
    is "$name: comes to its end" bash -c 'grep -qx "end of $1" "$2" || { cat "$2"; false; }' - "$name" "$WORK/out"
}

is "two nodes" "$TESTBED" up 2 8

fresh; part misuse
fresh; part config --env X=x/y
fresh; part files --env SCR_PREFIX= --env SCR_FLUSH=4 --env "SCR_SET_SIZE=\$N" --env N=16 --env SCR_COPY_TYPE=
fresh; part differ

# With SCR_ABORT_ON_ERROR=1 the job ends where SCR 3.1 ends it, with a line that says why; and
# where SCR 3.1 returns an error, it continues.
mistake() { # NAME OPTION...
    local name=$1
    shift
    fresh
    job 60 -n 4 "$@" -- "$WORK/api" aborts "$name" >"$WORK/out" 2>&1
    status=$?
    cat "$prefix"/err.aborts.* >"$WORK/err"
}
while read -r name line; do
    abort=--env=SCR_ABORT_ON_ERROR=1
    [ "$name" != by_config ] || abort=--env=SCR_ABORT_ON_ERROR=
    options=("${abort%%=*}" "${abort#*=}")
    [ "$name" != init_fails ] || options+=(--env SCR_COPY_TYPE=TAPE)
    mistake "$name" "${options[@]}"
    is "$name: the job ends" test "$status" != 0 -a "$status" -lt 124 -o "$status" = 255
    is "... before the program continues" bash -c '! grep "^the program has gone on\|^end of aborts" "$1"' - "$WORK/out"
    is "... and a line says why" grep -q "$line" "$WORK/err"
done < <(mapfile -t list <<'END'
before_init SCR_Should_exit: the library is not initialized
bad_setting SCR_Config: "A" is not NAME=VALUE
by_config SCR_Complete_output: the library is not initialized
differ SCR_Init: .*settings differ between ranks
init_fails SCR_Init: .*TAPE
late SCR_Finalize: MPI_Finalize has been called
second_init SCR_Init: .*already initialized
set_late SCR_Config: .*before SCR_Init
no_start SCR_Complete_output: called in the wrong place
names SCR_Start_output: .*rank 0 called it with
not_offered SCR_Start_restart: called in the wrong place
open SCR_Finalize: called in the wrong place
outside SCR_Route_file: .*is not below the prefix directory
shared SCR_Complete_output: .*each rank needs files of its own
END
    drawn 5 "${list[@]}")
while read -r name line; do
    options=(--env SCR_ABORT_ON_ERROR=1)
    [ "$name" != disabled ] || options+=(--env SCR_ENABLE=0)
    [ "$name" != ambiguous ] || { fresh; printf "CKPT=0\nCKPT=1\n" >"$WORK/two.conf"; options+=(--env SCR_CONF_FILE="$WORK/two.conf"); }
    mistake "$name" "${options[@]}"
    is "$name: the program continues" bash -c '[ "$1" = 0 ] && grep -q "gone on" "$2" || { cat "$2"; false; }' - "$status" "$WORK/out"
    is "... and a line says what was wrong" grep -q "$line" "$WORK/err"
done < <(mapfile -t list <<'END'
disabled SCR_Init: goscr is turned off
ambiguous SCR_Config: CKPT is ambiguous
invalid SCR_Complete_output: .*the program says
unread SCR_Complete_restart: .*the program could not restart
null SCR_Route_file: the name of the file is NULL
unknown SCR_Current: 
END
    drawn 3 "${list[@]}")
fresh; part forgotten
fresh; part late
fresh; part init_fails --env SCR_COPY_TYPE=TAPE
fresh; part unknown --env SCR_CHECKPOINT_INTERVALL=3 --env SCR_X=1
fresh; part halves --env SCR_PREFIX= --env SCR_FLUSH=0
fresh; part disabled --env SCR_ENABLE=0
fresh; part respect
fresh; part produce --env SCR_FLUSH=1
"$TESTBED" wipe; part current --env SCR_FLUSH=0
"$TESTBED" wipe; part drop --env SCR_FLUSH=0
"$TESTBED" wipe; part delete --env SCR_FLUSH=0
fresh; mkdir "$prefix/.scr"
is "a halt file" "$BUILD/scr_halt_cntl" --dir "$prefix" --checkpoints 2
part halt --env SCR_FLUSH=0
fresh; mkdir "$prefix/.scr"
is "a halt file" "$BUILD/scr_halt_cntl" --dir "$prefix" --reason "the user says so"
part halt_at_once
fresh; part ends_soon --env SCR_HALT_SECONDS=100 --env SCR_END_TIME=$(($(date +%s) + 50))
fresh; mkdir "$prefix/.scr"
is "a halt file" "$BUILD/scr_halt_cntl" --dir "$prefix" --checkpoints 1
part exits --env SCR_HALT_EXIT=1 --env SCR_FLUSH=10
is "... with status 0" same 0 "$status"
is "... and all that was written in the prefix directory" test -f "$prefix/step.1/rank_3"
is "a halt file, since the condition has lapsed" "$BUILD/scr_halt_cntl" --dir "$prefix" --reason "the user says so"
part exits_at_once --env SCR_HALT_EXIT=1
is "... with status 0" same 0 "$status"
fresh; job 60 -n 2 -- "$WORK/api" die_of_pipe >"$WORK/out" 2>&1
is "a program without a handler still dies of SIGPIPE" bash -c '! grep "^write says" "$1"' - "$WORK/out"

# A program that is linked with another libscr.so, which has only the name and the symbols.
{
    grep -o '^[a-z].*SCR_[A-Z][A-Za-z_]*(' "$BUILD/scr.h" | grep -o 'SCR_[A-Za-z_]*' | sort -u |
        sed 's/.*/int &(void); int &(void) { return 99; }/'
} >"$WORK/stub.c"
mkdir "$WORK/stub"
is "a stub library" cc -shared -fPIC -Wl,-soname,libscr.so -o "$WORK/stub/libscr.so" "$WORK/stub.c"
is "heat, linked with it" "$MPICC" -O2 -I"$BUILD" -o "$WORK/heat" "$ROOT/examples/heat/heat.c" -L"$WORK/stub" -lscr -lm
fresh
heat=(-n 4 --env "LD_LIBRARY_PATH=$BUILD" -- "$WORK/heat" -x 65 -y 65 -s 60 -c 10)
is "... runs on ours by LD_LIBRARY_PATH" job 60 "${heat[@]}"
job 60 "${heat[@]}" >"$WORK/out" 2>&1
is "... and restarts" grep 'restarted from heat.50' "$WORK/out"

cat >"$WORK/plus.cpp" <<'EOF'
#include <mpi.h>
#include <scr.h>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

static void check(int rc, const char* what) { if (rc != SCR_SUCCESS) throw std::runtime_error(what); }

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0, have = 0, rc = 0;
    char path[SCR_MAX_FILENAME];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        check(SCR_Init(), "init");
        check(SCR_Have_restart(&have, path), "have");
        const std::string name = "plus/" + std::to_string(rank);
        if (have) {
            check(SCR_Start_restart(path), "start");
            check(SCR_Route_file(name.c_str(), path), "route");
            std::string text;
            std::getline(std::ifstream(path), text);
            check(SCR_Complete_restart(text == name), "complete");
            if (rank == 0) std::puts("restarted");
        }
        check(SCR_Start_output("plus", SCR_FLAG_CHECKPOINT), "start output");
        check(SCR_Route_file(name.c_str(), path), "route");
        std::ofstream(path) << name << '\n';
        check(SCR_Complete_output(1), "complete output");
        check(SCR_Finalize(), "finalize");
    } catch (const std::exception& e) {
        std::fprintf(stderr, "plus: %s\n", e.what());
        rc = 1;
    }
    MPI_Finalize();
    return rc;
}
EOF
fresh
is "a C++ program builds" "mpicxx.$MPI" -std=c++11 -Wall -Wextra -I"$BUILD" -o "$WORK/plus" "$WORK/plus.cpp" \
    -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
is "... runs" job 60 -n 4 -- "$WORK/plus"
job 60 -n 4 -- "$WORK/plus" >"$WORK/out" 2>&1
is "... and restarts" grep -x restarted "$WORK/out"

modest() { # WHAT FOR
    local kib
    kib=$(awk '$1 == "memory" { print $2 }' "$WORK/out")
    is "... a rank has needed $kib KiB of memory $1, at most 32 MiB" test "${kib:-99999}" -le 32768
}

# shape NAME RANKS CHECKPOINTS TITLE: files are written, a node is lost, and they are
# rebuilt with every byte, mode and time; nothing is flushed.
shape() {
    local name=$1 ranks=$2 count=$3 title=$4 log=$WORK/log.$1 t=$SECONDS lost
    fresh
    : >"$log"
    job 300 -n "$ranks" --env SCR_FLUSH=0 -- "$WORK/steps" -p "$name" -n "$count" -l "$log" >"$WORK/out" 2>&1
    is "$title" bash -c '[ $1 = 0 ] || { cat "$2"; false; }' - $? "$WORK/out"
    [ "$name" != big ] || modest "to protect it"
    for lost in node1 node0; do
        "$TESTBED" lose $lost 2>/dev/null
        job 300 -n "$ranks" --env SCR_FLUSH=0 --env SCR_DEBUG=1 -- "$WORK/steps" -p "$name" -n 0 -l "$log" >"$WORK/out" 2>&1
        is "... $lost is lost: all is exact again" bash -c '[ $1 = 0 ] && tail -n 1 "$2" | grep -qx "restarted '"$count"'" || { cat "$3"; false; }' \
            - $? "$log" "$WORK/out"
        is "... rebuilt, not fetched" grep -q "rebuilt from redundancy" "$WORK/out"
        [ "$name" != big ] || { modest "to rebuild it"; break; }
    done
    echo "   $name: $((SECONDS - t)) s"
}

mapfile -t list < <(drawn 2 "zero 4 2 files of 0 bytes, and a rank without files" "uneven 4 2 ranks with files of very different sizes" \
    "many 2 1 10,000 files a rank" "big 2 1 a file of 3 GiB")
for case in "${list[@]}"; do
    read -r name ranks count title <<<"$case"
    free=$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
    if [ "$name" = big ] && [ "$free" -lt 14 ]; then
        echo "   no file of 3 GiB: that takes 14 GiB of memory, and $free are free"
        continue
    fi
    shape "$name" "$ranks" "$count" "$title"
done
fresh
