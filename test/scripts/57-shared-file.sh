# shellcheck shell=bash
# shellcheck disable=SC1091
# Test: one MPI, 60 s
#
# examples/shared-file: programs whose ranks write one file by MPI-IO or HDF5, and files of
# HDF5 in the cache. Each job that restarts has to have the result of an undisturbed job, to the bit.
. "$(dirname "$0")/lib.bash"

here=$ROOT/examples/shared-file
strict=(-std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -O2 -I"$BUILD")
end=(-L"$BUILD" -lscr "-Wl,-rpath,$BUILD")
ways=(mpiio)
is "the program with MPI-IO builds" "$MPICC" "${strict[@]}" -o "$WORK/field-mpiio" "$here/field.c" "$here/mpiio.c" "${end[@]}"
if "$ROOT/scripts/deps" --install "hdf5-$MPI"; then
    ways+=(hdf5)
    hdf5() { cd "$WORK" && "h5pcc.$MPI" "${strict[@]}" -o "$WORK/field-hdf5" "$here/field.c" "$here/hdf5.c" "${end[@]}"; } # leaves *.o
    is "... and with HDF5" hdf5
else
    echo "ok without HDF5 for $MPI, only MPI-IO is tried"
fi
is "four nodes" "$TESTBED" up 4 1

prefix=$WORK/prefix
fresh() { rm -rf "$prefix"; mkdir "$prefix"; "$TESTBED" wipe; }
# job RANKS [NAME=VALUE | OPTION]... -- PROGRAM...: in the prefix directory; output in $WORK/out
job() {
    local ranks=$1 options=()
    shift
    while [ "$1" != -- ]; do
        case $1 in SCR_*=*) options+=(--env "$1") ;; *) options+=("$1") ;; esac
        shift
    done
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" \
        --env SCR_JOB_ID=field --env SCR_DEBUG=1 "${options[@]}" -- "${@:2}") >"$WORK/out" 2>&1 </dev/null
}
says() { # TEXT COMMAND...: the command succeeds, and its job prints the text
    local text=$1
    shift
    "$@" && grep -q -- "$text" "$WORK/out" || { echo "no \"$text\":"; cat "$WORK/out"; false; }
}
fails() { # TEXT COMMAND...: the command fails, and its job prints the text
    local text=$1
    shift
    ! "$@" && grep -q -- "$text" "$WORK/out" || { echo "it succeeds, or no \"$text\":"; cat "$WORK/out"; false; }
}
result() { cmp "$WORK/reference" "$prefix/result"; }

size=(-n 30011 -c 100)
fresh
is "an undisturbed job" says "checkpoint field.400 complete" \
    job 4 SCR_CACHE_BYPASS=1 -- "$WORK/field-mpiio" "${size[@]}" -s 450 -o "$WORK/reference"

# ------------------------------------------------------ one file of all ranks
bypass=SCR_CACHE_BYPASS=1
for way in "${ways[@]}"; do
    program=("$WORK/field-$way" "${size[@]}")
    fresh
    is "$way, bypass: four ranks write one file" says "checkpoint field.200 complete" job 4 $bypass -- "${program[@]}" -s 250
    is "... it is one file" same 1 "$(find "$prefix/field.200" -type f | wc -l)"
    is "... the library says once what bypass gives up" same 1 "$(grep -c "SCR_CACHE_BYPASS=1: .* without redundancy" "$WORK/out")"
    is "... two ranks restart from it" says "restarted from field.200 at step 200" job 2 $bypass -- "${program[@]}" -s 350
    is "... and five from theirs" says "restarted from field.300 at step 300" \
        job 5 $bypass -- "${program[@]}" -s 450 -o "$prefix/result"
    is "... with the right result" result
    is "... a job with more cells does not use them" fails "is its input another one?" \
        job 4 $bypass -- "$WORK/field-$way" -n 30012 -s 1
    is "... and begins at step 0 if it has to" job 4 $bypass SCR_RESTART=never -- "$WORK/field-$way" -n 30012 -s 1
    is "... it has not restarted" same 0 "$(grep -c '^restarted' "$WORK/out")"
    fresh
    # Open MPI's own MPI-IO waits for ever if a file is not on all nodes; ROMIO returns an error.
    is "$way: one file in the cache of the nodes is refused, and the job continues" says "is also written by rank" \
        job 4 --env OMPI_MCA_io=^ompio -- "${program[@]}" -s 100
    is "... with the advice of docs/shared-files.md" grep -q "SCR_CACHE_BYPASS=1 .*GROUP=WORLD .*docs/shared-files.md" "$WORK/out"
    is "... no checkpoint is complete" same 0 "$(grep -c '^checkpoint' "$WORK/out")"
    fresh
    rm -rf "$WORK/global"
    printf 'STORE=%s GROUP=WORLD\nCKPT=0 STORE=%s\n' "$WORK/global" "$WORK/global" >"$prefix/.scrconf"
    is "$way, a store that all nodes share" says "checkpoint field.200 complete" job 4 SCR_FLUSH=0 -- "${program[@]}" -s 250
    "$TESTBED" lose node1 2>/dev/null
    is "... a node is lost: the file is there" says "restarted from field.200 at step 200" \
        job 4 SCR_FLUSH=0 -- "${program[@]}" -s 450 -o "$prefix/result"
    is "... with the right result" result
done

# ------------------------------------------ files of HDF5 in the cache of nodes
grouped() { # DRIVER RANKS-OF-A-GROUP FILES
    local program=("$WORK/field-hdf5" "${size[@]}" -d "$1" -g "$2") lost
    fresh
    is "HDF5, $1 driver, a file for $2 ranks" says "checkpoint field.200 complete" \
        job 8 --per-node 2 SCR_FLUSH=0 -- "${program[@]}" -s 250
    # shellcheck disable=SC2016
    lost=$("$TESTBED" exec node1 bash -c 'find "$SCR_CACHE_BASE" -path "*field.200/part_*.h5" | wc -l')
    is "... files of a node" same "$3" "$lost"
    "$TESTBED" lose node1 2>/dev/null
    is "... which is lost: they are rebuilt" says "rebuilt from redundancy" \
        job 8 --per-node 2 SCR_FLUSH=1 -- "${program[@]}" -s 450 -o "$prefix/result"
    is "... and used" grep -q "restarted from field.200 at step 200" "$WORK/out"
    is "... with the right result" result
    "$TESTBED" wipe
    is "... and after all nodes have lost theirs, they are fetched" says "restarted from field.400 at step 400" \
        job 8 --per-node 2 -- "${program[@]}" -s 401
}
case " ${ways[*]} " in *" hdf5 "*)
    grouped core 1 2
    grouped split 2 2
    ;;
esac
