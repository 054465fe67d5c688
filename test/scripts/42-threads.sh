# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: both MPIs, 10 s
#
# Tests programs with several threads that call the library.
. "$(dirname "$0")/lib.bash"

is "threads.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -fopenmp -I"$BUILD" -o "$WORK/threads" \
    "$ROOT/test/scripts/threads.c" -L"$BUILD" -lscr -lpthread -Wl,-rpath,"$BUILD"
"$TESTBED" up 2
prefix=$WORK/prefix
for part in calls beside many openmp; do
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout 120 -n 4 --env SCR_PREFIX="$prefix" \
        --env OMP_PROC_BIND=false -- "$WORK/threads" $part) >"$WORK/out" 2>&1 </dev/null
    status=$?
    sed -n "s/^\(ok\|not ok\) /\1 $part: /p; /^  /p" "$WORK/out"
    is "$part: comes to its end" bash -c '[ "$1" = 0 ] && grep -qx "end of $2" "$3" || { echo "status $1"; cat "$3"; false; }' \
        - $status $part "$WORK/out"
done
