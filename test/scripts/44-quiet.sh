# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2054
# Test: both MPIs, 60 s
#
# Messages in transit are brought to rest, and are part of a checkpoint, by libscr_cr.so.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
flags=(-std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD")
libs=(-L"$BUILD" -lscr_cr -lscr -lpthread -ldl -Wl,-rpath,"$BUILD")
is "quiet.c builds" "$MPICC" "${flags[@]}" "$here/quiet.c" -o "$WORK/quiet" "${libs[@]}"
is "halo.c builds" "$MPICC" "${flags[@]}" "$here/halo.c" -o "$WORK/halo" -rdynamic "${libs[@]}"

# For numbers of ranks around powers of two, one of which is also tried without memory.
is "mosts.c builds" "$MPICC" "${flags[@]}" -I"$ROOT/cr/lib" "$here/mosts.c" -o "$WORK/mosts"
o=()
[ "$MPI" != openmpi ] || o=(--oversubscribe --allow-run-as-root)
compares() { # RANKS [memory]
    same "$1 ranks: right" "$(timeout 600 "mpirun.$MPI" "${o[@]}" -n "$1" "$WORK/mosts" "$TEST_SEED" "${@:2}" 2>&1)"
}
for n in 1 2 3 5 8; do is "$n ranks compare their counts" compares "$n"; done
is "a rank without memory for its counts is an error on all" compares 6 memory

prefix=$WORK/prefix
mkdir "$prefix"
ranks=3
"$TESTBED" up "$ranks"
vars=() limit=120
job() { # PROGRAM ARGUMENT...
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout "$limit" -n "$ranks" --env SCR_PREFIX="$prefix" --env SCR_COPY_TYPE=XOR "${vars[@]}" -- "$@") \
        </dev/null >"$WORK/out" 2>"$WORK/err"
}
ends() { same "$(printf '%s\n' "0 ends" "1 ends" "2 ends")" "$(sort "$WORK/out")" || { cat "$WORK/err"; return 1; }; }

job "$WORK/quiet"
is "messages of the store come as MPI's do, and misuse is an error" ends
is "... which says why" grep -q "MPI_Allreduce: between SCR_CR_Quiesce_start and SCR_CR_Quiesce_end" "$WORK/err"
is "... a send that was cancelled, too" grep -q "a send was cancelled, so it is not known" "$WORK/err"
is "... and which rank has a collective operation that others have not begun" \
    grep -q "rank 0 has begun and not completed 1; ranks with such operations: 1" "$WORK/err"
job "$WORK/quiet" threads
is "threads that receive at the same time: all messages are counted, once" ends
job "$WORK/quiet" forgotten
is "receives that are cancelled and freed take no memory" ends
is "a library builds" "$MPICC" -shared -fPIC -x c -o "$WORK/library.so" /dev/null
is "quiet.c builds with Fortran's library" bash -c '"$1" "${@:3}" -c "$2/quiet.c" -o "$WORK/quiet.o"' - "$MPICC" "$here" "${flags[@]}"
is "..." "${MPICC/mpicc/mpifort}" -Wl,--no-as-needed "$WORK/quiet.o" -o "$WORK/loads" "${libs[@]}"
job "$WORK/loads" dlopen "$WORK/library.so"
is "... and comes to rest while another thread loads libraries" ends
job "$WORK/quiet" memory
is "a rank that has no memory is an error on all ranks, and no message is lost" ends
if [ -z "$ONCE" ]; then
    echo "   a message of more than 2 GiB: with the last MPI, as two of these tests at a time could take all memory"
elif ! drawn 1 large 2 3 4 | grep -qx large; then
    echo "   a message of more than 2 GiB: one TEST_SEED of four draws it, because it takes long"
elif [ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -ge 16 ]; then
    limit=1500 # three messages of 2.2 GiB, each copied several times, on a machine that does other things
    job "$WORK/quiet" large
    limit=120
    is "a message of more than 2 GiB comes from the store" ends
else
    echo "   too little memory for a message of more than 2 GiB"
fi
is "turns.c builds" "$MPICC" "${flags[@]}" "$here/turns.c" -o "$WORK/turns" -rdynamic "${libs[@]}"
vars=(--env SCR_CHECKPOINT_SECONDS=1)
job "$WORK/turns"
vars=()
is "while a thread of the program waits for its turn, a function that saves it can receive" ends
rm -rf "$prefix" && mkdir "$prefix" && "$TESTBED" wipe
job "$WORK/quiet" uncounted
is "what is not counted makes that known, if MPI has it" ends
[ "$MPI" != mpich ] || is "... with the name of the call" grep -q "the program has called MPI_Sendrecv_c, whose messages are not counted" "$WORK/err"
is "quietf.c builds" "$MPICC" "${flags[@]}" -c "$here/quietf.c" -o "$WORK/quietf.o"
for module in mpi mpi_f08; do
    define=()
    [ $module = mpi ] || define=(-DF08)
    mkdir "$WORK/$module"
    is "quietf.F90 builds with module $module" "${MPICC/mpicc/mpifort}" -J"$WORK/$module" "${define[@]}" "$here/quietf.F90" "$WORK/quietf.o" -o "$WORK/$module/quietf" "${libs[@]}"
    job "$WORK/$module/quietf"
    is "a program in Fortran, by module $module: messages are counted, and come from the store" ends
done
job "$WORK/quiet" output
is "a dataset is begun with messages in transit" ends
is "... without a word" same "" "$(grep transit "$WORK/err")"
vars=(--env SCR_CHECK_IN_FLIGHT=1)
job "$WORK/quiet" output
is "SCR_CHECK_IN_FLIGHT=1 changes nothing for the program" ends
is "... and names the messages" same \
    "SCR_Start_output: in transit, and not received by rank 1: 3 of rank 0 over MPI_COMM_WORLD (2 with tag 0, 1 with tag 1)" \
    "$(grep transit "$WORK/err" | sed 's/^.*SCR_Start/SCR_Start/')"


# On this node: on those of the testbed Open MPI cannot start processes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=("mpirun.$MPI" -n "$ranks")
[ "$MPI" != openmpi ] || mpirun+=(--oversubscribe)
if [ "$MPI" = openmpi ]; then # MPI_Comm_spawn of Debian's MPICH fails here
    timeout 3000 "${mpirun[@]}" "$WORK/quiet" spawn "$WORK/quiet" </dev/null >"$WORK/out" 2>"$WORK/err"
    is "messages over a communicator with other processes are not waited for" ends
fi

# Checkpoints at random steps with messages in transit.  The job continues after each; or it ends
# after each, and the next one continues from it.  HALO_SEEDS and HALO_CHECKPOINTS: for make halo.
count=${HALO_CHECKPOINTS:-$(sized 5 20)}
steps=$((count * 5 + 20)) # a checkpoint every 5 steps at the latest
unexpected() { grep -vE "stays? in the memory of the nodes" "$WORK/err"; } # all other lines that the last job has printed on stderr
for seed in ${HALO_SEEDS:-$TEST_SEED}; do
    vars=()
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    job "$WORK/halo" $steps "$seed"
    result=$(cat "$WORK/out")
    is "seed $seed: the program has a result" grep -q "^result [0-9a-f ]*$" "$WORK/out"
    job "$WORK/halo" $steps "$seed" "-$count"
    is "... and the same one with checkpoints, bit for bit" same "$result" "$(cat "$WORK/out" <(unexpected))"
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    for ((i = 1; i <= count; i++)); do
        job "$WORK/halo" $steps "$seed" "$count"
        [ "$(cat "$WORK/out")" = "checkpoint $i" ] || break
    done
    is "... it ends after each checkpoint, and continues from it" same $((count + 1)) "$i"
    job "$WORK/halo" $steps "$seed" "$count"
    found=$(cat "$WORK/out" <(unexpected))
    is "... to the same result" same "$result" "$found"
    # Each job but the first continues from the checkpoint of the one before, and the last has the result.
    made=$((i - 1))
    [ "$found" != "$result" ] || echo "seed $seed: $made checkpoints, $made restarts, one from each, and the result is that without any, bit for bit"
done
