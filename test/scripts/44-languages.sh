# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2054
# Test: both MPIs, 50 s
#
# Programs in Fortran and Python that take part in their checkpoints: takespart.f90, takespart.py.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
prefix=$WORK/prefix
ranks=3
"$TESTBED" up "$ranks" 3

declared=$(grep -o '^int SCR_CR_[A-Za-z_]*(' "$BUILD/scr_cr.h" | sed 's/^int //; s/($//' | sort -u)
is "scr_cr.h has ten calls" same 10 "$(wc -l <<<"$declared")"
is "libscr_cr.so has each for Fortran" same "$(tr '[:upper:]' '[:lower:]' <<<"$declared")" \
    "$(nm -D --defined-only "$BUILD/libscr_cr.so" | awk '{ print $3 }' | sed -n 's/^\(scr_cr_.*\)_$/\1/p' | sort)"
is "module scr_cr has each" same "$(tr '[:upper:]' '[:lower:]' <<<"$declared")" \
    "$(sed -n 's/^  public :: //p' "$ROOT/bindings/fortran/scr_cr.f90" | tr -d ' ' | tr , '\n' | sort)"
python=(env PYTHONPATH="$BUILD" PYTHONDONTWRITEBYTECODE=1 python3)
is "scr_cr.py has each" "${python[@]}" -c '
import sys, scr_cr
missing = [n for n in sys.argv[1].lower().split() if not callable(getattr(scr_cr, n[7:], None)) or n[7:] not in scr_cr.__all__]
missing += [n for n in scr_cr.__all__ if not hasattr(scr_cr, n)]
if missing: sys.exit("missing: %s" % missing)' "$declared"
values() { # of the enumerations, one "NAME NUMBER" a line
    sed -nE 's/^ +SCR_CR_INC_([A-Z_]+) = ([0-9]+),?$/\1 \2/p' "$BUILD/scr_cr.h" | sort
}
is "there are eight constants" same 8 "$(values | wc -l)"
is "... the same in Fortran" same "$(values)" \
    "$(sed -nE 's/^.*parameter, public :: SCR_CR_INC_([A-Z_]+) = ([0-9]+)$/\1 \2/p' "$ROOT/bindings/fortran/scr_cr.f90" | sort)"
is "... and in Python" same "$(values)" "$("${python[@]}" -c '
import scr_cr
for e in scr_cr.Event: print(e.name, int(e))
for s in scr_cr.State: print("STATE_" + s.name, int(s))' | sort)"
is "scr_cr.py has to be the first" grep '^ImportError: import scr_cr before scr and mpi4py' <("${python[@]}" -c 'import scr, scr_cr' 2>&1)
is "... or preloaded" env LD_PRELOAD="$BUILD/libscr_cr.so" "${python[@]}" -c 'import scr, scr_cr'
is "... and says what it misses" grep '^ImportError: .*(set SCR_LIB' <(env SCR_LIB="$WORK" "${python[@]}" -c 'import scr_cr' 2>&1)

fortran() { # PROGRAM OPTION...
    local program=$1
    shift
    mkdir -p "$WORK/$program.mod"
    "mpifort.$MPI" -std=f2018 -Wall -fno-range-check -I"$BUILD" -J"$WORK/$program.mod" -o "$WORK/$program" "$here/takespart.f90" \
        -L"$BUILD" -Wl,--no-as-needed -lscr_cr -lscr -Wl,-rpath,"$BUILD" "$@"
}
is "takespart.f90 builds" fortran registers
is "... so that it exports its functions" fortran exports -rdynamic
sed -e 's/use mpi$/use mpi_f08/' \
    -e '/call scr_cr/s/MPI_INFO_NULL\([,)]\)/MPI_INFO_NULL%MPI_VAL\1/; /call scr_cr/s/MPI_COMM_WORLD\([,)]\)/MPI_COMM_WORLD%MPI_VAL\1/' \
    "$here/takespart.f90" >"$WORK/takespart08.f90"
is "... with module mpi_f08" bash -c 'mkdir "$1/f08.mod" && "mpifort.$2" -Wall -I"$3" -J"$1/f08.mod" -o "$1/f08" "$1/takespart08.f90" -rdynamic \
    -L"$3" -Wl,--no-as-needed -lscr_cr -lscr -Wl,-rpath,"$3"' - "$WORK" "$MPI" "$BUILD"

run() { # COMMAND...: on 3 ranks; the ranks' lines are in $WORK/out, in their order
    mkdir -p "$prefix" "$WORK/elsewhere"
    (cd "$WORK/elsewhere" && exec "$TESTBED" run --mpi "$MPI" --timeout 120 -n "$ranks" --env SCR_PREFIX="$prefix" --env SCR_CACHE_SIZE=3 \
        --env SCR_FLUSH=1 --env SCR_COPY_TYPE=XOR --env PYTHONPATH="$BUILD" --env PYTHONDONTWRITEBYTECODE=1 -- "$@") \
        </dev/null >"$WORK/out" 2>"$WORK/err"
}
fresh() { "$TESTBED" wipe; rm -rf "$prefix"; }
said() { grep "^$1 " "$WORK/out" | cut -d' ' -f2-; } # RANK
all_say() { # NAME LINE...: what each rank says
    local name=$1 rank
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        is "$name, rank $rank" shown "$(printf '%s\n' "$@")" "$(said $rank)"
    done
}
shown() { same "$@" || { cat "$WORK/out" "$WORK/err"; return 1; }; }
inc() { # STATE EVENT...: what both callbacks say
    local state=$1 event
    shift
    for event in "$@"; do printf '%s\n' "upper $((10 * event + state))" "lower $((10 * event + state))"; done
}

programs=(registers exports f08 python3)
theirs=$(/usr/bin/python3 -c 'from mpi4py import MPI; print(MPI.Get_library_version().split(",")[0])' 2>/dev/null)
case $MPI:$theirs in
openmpi:Open\ MPI*|mpich:MPICH*) programs+=(mpi4py) ;;
*) echo "   no mpi4py for $MPI here" ;;
esac
for name in "${programs[@]}"; do
    program=("$WORK/$name") last=()
    case $name in
    registers) last=(register) ;;
    python3) program=(python3 "$here/takespart.py") ;;
    mpi4py) program=(/usr/bin/python3 "$here/takespart.py") last=(mpi4py) ;;
    esac
    fresh
    run "${program[@]}" self 5 "${last[@]}"
    all_say "$name: saves itself" "continues 2" "checkpoint 1" "continues 4" "checkpoint 2" "ends 6"
    is "$name: how it restarts is recorded" grep "^restart command: *takespart on\$" <("$BUILD/scr_restart" -i "$prefix" 2>&1)
    "$TESTBED" lose node1
    run "${program[@]}" self 6 "${last[@]}"
    all_say "$name: restores itself after the loss of a node" "restarts 4" "continues 6" "checkpoint 3" "ends 7"

    fresh
    run "${program[@]}" inc more "${last[@]}"
    short=()
    case $name in python3|mpi4py) ;; *) short=("$(inc 0 0 1)" "continues 0" "$(inc 1 2 3)" "short handle    1") ;; esac
    all_say "$name: callbacks" "wrong event 1" "$(inc 0 0 1)" "continues 0" "$(inc 1 2 3)" "checkpoint 1" "${short[@]}" "ends 0"
    fresh
    run "${program[@]}" refuse more "${last[@]}"
    all_say "$name: a callback refuses a checkpoint" "wrong event 1" "$(inc 0 0 1)" "$(inc 3 2 3)" "checkpoint -1" "ends 0"
    is "... and the reason is said" grep -q "the INC callback of PRE_CRS_POST_MPI returned [15]" "$WORK/err"
    case $name in python3|mpi4py) is "... with the exception" grep -q "OSError: refused" "$WORK/err" ;; esac

    fresh
    run "${program[@]}" alone more "${last[@]}"
    lines=("restart fails 1" "migration fails 1" "quiesce_end fails 1" "quiesce_checkpoint fails 1")
    case $name in python3|mpi4py)
        lines=("SCR_CR_Restart fails 1" "SCR_CR_Migrate fails 1" "SCR_CR_Migrate fails 1" "SCR_CR_Quiesce_end fails 1" "SCR_CR_Quiesce_checkpoint fails 1") ;;
    esac
    all_say "$name: what is not possible is an error" "continues 0" "checkpoint 1" "${lines[@]}" "ends 0"
    is "... which says why" grep -q "SCR_CR_Restart: the job does not run under scr_run" "$WORK/err"

    fresh
    [ $name != registers ] || continue # without -rdynamic, as it is linked
    run "${program[@]}" quiet more "${last[@]}"
    is "$name: no message may be sent in a region without messages" shown "send fails 1" "$(said 0 | grep send)"
    is "... one that was in transit is received" shown "receives 4711" "$(said 1 | grep receives)"
    is "... the checkpoint is made" same 3 "$(grep -c "checkpoint 1" "$WORK/out")"
    run "${program[@]}" quiet more "${last[@]}"
    is "... and again after a restart, without being sent" shown "restarts 0,receives 4711" "$(said 1 | grep -e receives -e restarts | paste -sd ,)"
done

# Under scr_run, which starts the program again when it asks for that.
"$TESTBED" down
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=("mpirun.$MPI" -n 2)
[ "$MPI" != openmpi ] || mpirun+=(--oversubscribe)
for name in exports python3; do
    program=("$WORK/$name")
    [ $name != python3 ] || program=(env PYTHONPATH="$BUILD" PYTHONDONTWRITEBYTECODE=1 python3 "$here/takespart.py")
    rm -rf "$prefix" "$WORK/node"
    mkdir "$prefix" "$WORK/node"
    SCR_PREFIX=$prefix SCR_JOB_ID=languages.$$ SCR_CNTL_BASE=$WORK/node SCR_CACHE_BASE=$WORK/node SCR_FLUSH=0 SCR_CACHE_SIZE=3 \
        timeout 1500 "$BUILD/scr_run" "${mpirun[@]}" "${program[@]}" again "$WORK/marker.$name" >"$WORK/out" 2>"$WORK/err" </dev/null
    is "$name: scr_run starts a program again from the checkpoint that it names" shown "restarts 2,ends 7" \
        "$(said 0 | grep -e restarts -e ends | paste -sd ,)"
done
