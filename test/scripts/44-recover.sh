# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: both MPIs, 10 s
#
# SCR_Recover takes a session over to another communicator: with any MPI if that has all processes of the job, and
# else only if the MPI continues after processes have died, which is found out without them.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
is "recover.c builds" "$MPICC" -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -O2 -I"$BUILD" -o "$WORK/recover" \
    "$here/recover.c" -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
is "two nodes" "$TESTBED" up 2

prefix=$WORK/prefix
part() { # NAME OPTION...
    local name=$1
    shift
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout 600 -n 4 --env SCR_PREFIX="$prefix" --env SCR_COPY_TYPE=XOR \
        --env SCR_FLUSH=0 "$@" -- "$WORK/recover" "$name") </dev/null >"$WORK/out" 2>&1
    sed -n "s/^\(ok\|not ok\) /\1 $name: /p; /^  /p" "$WORK/out"
    is "$name: comes to its end" bash -c 'grep -qx "end of $1" "$2" || { cat "$2"; false; }' - "$name" "$WORK/out"
}
part takes
is "... and no line says that a rank cannot continue but of the call that was left" \
    same 0 "$(grep "cannot continue" "$WORK/out" | grep -vc "SCR_Need_checkpoint: rank 0 cannot continue, .*: the program has called SCR_Recover")"
part halves
part refuses
is "... and a line says why, and what to do" \
    grep -E "SCR_Recover: .* lacks 1 of .* --with-ft ulfm: (the MPI is |mpirun was called without).* under scr_run it starts again" "$WORK/out"
is "... by one rank of each communicator" same "rank 0 rank 3" \
    "$(sed -n 's/^SCR: \(rank [0-9]\) .*SCR_Recover: the new communicator lacks .*/\1/p' "$WORK/out" | sort -u | xargs)"

# Open MPI 4.1 has no ULFM, and MPICH 4.0 hangs in its calls.
release=$("$MPICC" --showme:version 2>/dev/null | sed -n 's/.*Open MPI \([0-9]*\)\..*/\1/p')
if [ "${release:-0}" -lt 5 ]; then
    echo "   no process dies: this MPI does not continue after that"
    exit 0
fi
is "survive.c builds" "$MPICC" -std=gnu99 -Wall -Wextra -Werror -O2 -I"$BUILD" -o "$WORK/survive" "$here/survive.c" -L"$BUILD" -lscr \
    -Wl,-rpath,"$BUILD"
for seed in 1 4 5 6; do
    rm -rf "$prefix"
    mkdir -p "$prefix/nodes"
    "$TESTBED" wipe
    # It may be killed in MPI_Finalize, which does not always return after a process has died, also without the library.
    (cd "$prefix" && TESTBED_OMPI_ARGS="--with-ft ulfm" exec "$TESTBED" run --mpi "$MPI" --timeout 600 -n 4 --env SCR_PREFIX="$prefix" \
        --env SCR_COPY_TYPE=XOR --env SCR_FLUSH=0 -- "$WORK/survive" "$seed" 1 6) </dev/null >"$WORK/out" 2>&1
    is "seed $seed: a process dies, and the others continue with a new one" grep -x "survived 1 deaths" "$WORK/out"
    is "... from the right checkpoint" bash -c '! grep "^wrong" "$1"' - "$WORK/out"
done
