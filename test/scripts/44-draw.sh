# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2054
# Test: both MPIs, 60 s
#
# A program that draws its next call is saved at random instants, and has the result of one that is not.
# DRAW_CHECKPOINTS, DRAW_STEPS and DRAW_THREADS: for make halo.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
is "draw.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD" "$here/draw.c" -o "$WORK/draw" -rdynamic -L"$BUILD" \
    -Wl,--no-as-needed -lscr_cr -lscr -lpthread -Wl,-rpath,"$BUILD"
is "onethread.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -shared -fPIC "$here/onethread.c" -o "$WORK/onethread.so"

prefix=$WORK/prefix
ranks=3
steps=${DRAW_STEPS:-$(sized 600 3000)}
count=${DRAW_CHECKPOINTS:-$(sized 6 40)}
"$TESTBED" up "$ranks"
run() { # THREAD SEED; a THREAD of MPI: one for one thread
    local vars=(--env SCR_CR_THREAD="$1")
    [ "$1" != MPI ] || vars=(--env LD_PRELOAD="$WORK/onethread.so" --env DRAW_LOCKS=0)
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout "$(scaled 120)" -n "$ranks" --env SCR_PREFIX="$prefix" --env SCR_COPY_TYPE=XOR \
        "${vars[@]}" --env SCR_CR_LIMIT_SECONDS="$(scaled 40)" -- "$WORK/draw" "$steps" "$2") </dev/null >"$WORK/out" 2>"$WORK/err"
}
fresh() { "$TESTBED" wipe; rm -rf "$prefix"; mkdir "$prefix"; }
begun() { # JOB: it has begun, or has ended
    grep -q "the program has begun" "$WORK/err" || ! kill -0 "$1" 2>/dev/null
}
# Runs the program, and asks for a checkpoint after some time.  Returns whether there was one, or the program has its result.
disturbed() { # THREAD SEED
    local job asked=0
    : >"$WORK/err"
    run "$@" &
    job=$!
    within 300 begun $job
    sleep "$((RANDOM % 2)).$((RANDOM % 1000 + 1000))"
    timeout 500 "$BUILD/scr" checkpoint --term -p "$prefix" >"$WORK/asked" 2>&1 || asked=1
    wait $job
    grep -q result "$WORK/out" && [ $asked = 1 ] && ! grep -q "in MPI_Finalize\|not running\|no job\|ended" "$WORK/asked" && cat "$WORK/asked" && refused=$((refused + 1))
    if [ $asked = 0 ] && ! grep -q result "$WORK/out"; then
        made=$((made + 1))
        return 0
    fi
    grep -q result "$WORK/out"
}
RANDOM=$((TEST_SEED % 32768))
for thread in ${DRAW_THREADS:-$(divided 0 1 MPI)}; do
    made=0 jobs=0 refused=0
    while [ $made -lt "$count" ] && [ $jobs -lt $((2 * count + 10)) ]; do
        seed=$((TEST_SEED + jobs))
        fresh
        run $thread $seed
        result=$(cat "$WORK/out")
        is "SCR_CR_THREAD=$thread, seed $seed: the program has a result" grep -q "^result [0-9a-f]*$" "$WORK/out"
        [ -n "$result" ] || { cat "$WORK/err"; continue 2; }
        [ $thread != MPI ] || is "... which says where it is saved" grep -q "MPI allows one thread at a time" "$WORK/err"
        fresh
        while [ $made -lt "$count" ] && disturbed $thread $seed; do
            jobs=$((jobs + 1))
            ! grep -q result "$WORK/out" || break
        done
        grep -q result "$WORK/out" || run $thread $seed # to its end
        # mpiexec of MPICH prints more after it, if the checkpoint was made in MPI_Finalize.
        found=$(grep "^result [0-9a-f]*$" "$WORK/out")
        is "... and the same with checkpoints, $made until now, and a restart from each" same "$result" "$found"
        [ "$result" = "$found" ] || { cat "$WORK/asked" "$WORK/err"; continue 2; }
        jobs=$((jobs + 1))
    done
    echo "SCR_CR_THREAD=$thread: $made checkpoints, $made restarts, one from each, and the results are those without any, bit for bit; $refused requests were refused"
done
"$TESTBED" down
