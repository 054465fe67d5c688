# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: both MPIs, 50 s
#
# The interfaces for other languages than C: names and constants, every call used
# correctly and wrongly (fixed.f, free.f90, bindings.py), and one program in five
# languages, each of which restarts from the checkpoints of the others.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
mpifort=mpifort.$MPI

# ------------------------------------------------------------ names, constants

# The functions in scr.h, except SCR_Configf, whose arguments only C can pass on.
functions=$(grep -o '^[a-z].*SCR_[A-Z][A-Za-z_]*(' "$BUILD/scr.h" | grep -o 'SCR_[A-Za-z_]*' | sort -u |
    grep -vx SCR_Configf | tr '[:upper:]' '[:lower:]')
constants=$(sed -nE 's/^#define (SCR_(SUCCESS|MAX_FILENAME|FLAG_[A-Z]+)) +([0-9]+).*/\1 \3/p' "$BUILD/scr.h")
logicals=$(printf '%s\n' scr_{have_restart,need_checkpoint,should_exit,complete_{restart,output,checkpoint}})
exported() { nm -D --defined-only "$BUILD/libscrf.so" | awk '{ print $3 }' | sed 's/@.*//'; }
public() { sed -n 's/^  public :: //p' "$ROOT/bindings/fortran/scr.f90" | tr -d ' ' | tr , '\n'; }

is "there are constants to compare" test "$(wc -l <<<"$constants")" -ge 5
is "libscrf.so exports the calls of scr.h, in C and Fortran, and those of the module" same \
    "$( (grep -o '^[a-z].*SCR_[A-Z][A-Za-z_]*(' "$BUILD/scr.h" | grep -o 'SCR_[A-Za-z_]*' | sort -u; xargs printf '%s_\n' <<<"$functions"; xargs printf '__scr_MOD_%s_logical\n' <<<"$logicals") | sort)" "$(exported | sort)"
is "its soname is libscrf.so" grep -q 'SONAME.*\[libscrf.so\]' <(readelf -d "$BUILD/libscrf.so")
is "module scr has the calls of scr.h" same "$functions" "$(public | sort)"

check_constants() { # lines of a program that compare each
    while read -r name value; do echo "      if ($name /= $value) error stop '$name'"; done <<<"$constants"
}
{ echo "      program f"; echo "      implicit none"; echo "      include 'scrf.h'"; check_constants; echo "      end"; } >"$WORK/const.f"
cp "$WORK/const.f" "$WORK/const.f90"
{ echo "program m"; echo "use scr"; echo "implicit none"; check_constants; echo "end program"; } >"$WORK/module.f90"
for source in const.f const.f90 module.f90; do
    is "constants in $source" bash -c 'gfortran -Wall -Werror -I"$1" -o "$2.exe" "$2" && "$2.exe"' - "$BUILD" "$WORK/$source"
done
python=(env PYTHONPATH="$BUILD" PYTHONDONTWRITEBYTECODE=1 python3)
is "scr.py has the calls and constants of scr.h" "${python[@]}" -c '
import sys, scr
missing = [n for n in sys.argv[1].split() if n != "scr_init_comm" and not callable(getattr(scr, n[4:], None))]
for line in sys.argv[2].splitlines():
    name, value = line.split()
    if getattr(scr, name[4:]) != int(value): missing.append(name)
missing += [n for n in scr.__all__ if not hasattr(scr, n)]
if missing: sys.exit("missing: %s" % missing)' "$functions" "$constants"

# ------------------------------------------------------- where scr.py looks

is "scr.py finds libscr.so beside it" "${python[@]}" -c 'import scr; scr.get_version()'
mkdir -p "$WORK/py" "$WORK/empty" "$WORK/deep/lib/python"
cp "$BUILD/scr.py" "$WORK/py/"
cp "$BUILD/scr.py" "$WORK/deep/lib/python/"
cp "$BUILD/libscr.so" "$WORK/deep/lib/"
elsewhere=(env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$WORK/py")
is "... in the directory above" env PYTHONPATH="$WORK/deep/lib/python" PYTHONDONTWRITEBYTECODE=1 python3 -c 'import scr'
is "... in the directory SCR_LIB" "${elsewhere[@]}" SCR_LIB="$BUILD" python3 -c 'import scr'
is "... as the file SCR_LIB" "${elsewhere[@]}" SCR_LIB="$BUILD/libscr.so" python3 -c 'import scr'
is "... where the system looks" "${elsewhere[@]}" LD_LIBRARY_PATH="$BUILD" python3 -c 'import scr'
for lib in "" "$WORK/empty" /dev/null; do
    is "... and says what to do, SCR_LIB=${lib##*/}" bash -c '! "$@" 2>"$0" && grep -q "^ImportError: .*SCR_LIB" "$0"' \
        "$WORK/err" "${elsewhere[@]}" SCR_LIB="$lib" python3 -c 'import scr'
done
libc=$(ldd "$BUILD/libscr.so" | awk '$1 ~ /^libc\.so/ { print $3 }')
is "... another library is none" bash -c '! "$@" 2>"$0" && grep -q "is not a libscr.so" "$0"' \
    "$WORK/err" "${elsewhere[@]}" SCR_LIB="$libc" python3 -c 'import scr'

# ------------------------------------------------------------- every call, run

is "a program in fixed form builds" "$mpifort" -std=legacy -I"$BUILD" -o "$WORK/fixed" "$here/fixed.f" \
    -L"$BUILD" -lscrf -Wl,-rpath,"$BUILD"
is "a program with the module builds" "$mpifort" -std=f2018 -Wall -Werror -I"$BUILD" -o "$WORK/free" "$here/free.f90" \
    -L"$BUILD" -lscrf -Wl,-rpath,"$BUILD"
printf 'use scr\ncall scr_init()\nend\n' >"$WORK/bad.f90"
is "a program of two jobs builds" "$mpifort" -std=f2018 -Wall -Werror -I"$BUILD" -o "$WORK/parts" "$here/parts.f90" \
    -L"$BUILD" -lscrf -Wl,-rpath,"$BUILD"
is "a wrong call of the module does not" grep "Missing actual argument.*ierror" \
    <(gfortran -I"$BUILD" -fsyntax-only "$WORK/bad.f90" 2>&1)

is "four nodes" "$TESTBED" up 4 20

# part NAME PROGRAM...: runs a program twice, which must print "end of NAME" at its end;
# the second run restarts. The program's checks are counted.
part() {
    local name=$1 time
    shift
    "$TESTBED" wipe
    mkdir "$WORK/prefix-$name"
    for time in first second; do
        (cd "$WORK/prefix-$name" && exec "$TESTBED" run -n 4 --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$PWD" --env SCR_FLUSH=0 \
            --env PYTHONPATH="$BUILD" --env PYTHONDONTWRITEBYTECODE=1 -- "$@") >"$WORK/out" 2>"$WORK/err" </dev/null
        sed -n "s/^\(ok\|not ok\) /\1 $name, $time run: /p" "$WORK/out"
        is "$name, $time run: comes to its end" bash -c 'grep -qx "end of $1" "$2" || { cat "$2" "$3"; false; }' \
            - "${name%-*}" "$WORK/out" "$WORK/err"
    done
    is "$name has restarted" grep -x restarted "$WORK/out"
}
part fixed "$WORK/fixed"
part free "$WORK/free"
mkdir -p "$WORK/parts.dir/0" "$WORK/parts.dir/1"
part parts env -u SCR_PREFIX PARTS="$WORK/parts.dir" "$WORK/parts"
part bindings.py python3 "$here/bindings.py"
part plain.py python3 "$here/plain.py"

# mpi4py is built for one MPI, and for the distribution's Python.
theirs=$(/usr/bin/python3 -c 'from mpi4py import MPI; print(MPI.Get_library_version().split(",")[0])' 2>/dev/null)
case $MPI:$theirs in
openmpi:Open\ MPI*|mpich:MPICH*)
    part bindings.py-mpi4py /usr/bin/python3 "$here/bindings.py" mpi4py
    part plain.py-mpi4py /usr/bin/python3 "$here/plain.py" mpi4py ;;
*:?*)
    echo 'from mpi4py import MPI
import scr
try:
    scr.init()
except scr.Error as e:
    print(e)' >"$WORK/mixed.py"
    is "mpi4py of another MPI is refused" grep '^mpi4py is built for another MPI' <(env PYTHONPATH="$BUILD" \
        PYTHONDONTWRITEBYTECODE=1 timeout 600 /usr/bin/python3 "$WORK/mixed.py" 2>&1) ;;
*)  echo "   no mpi4py here" ;;
esac

# ------------------------------------------------- one program, five languages

heat() { # PREFIX LANGUAGE STEPS OPTION...: of the program
    local prefix=$1 language=$2 steps=$3 program
    shift 3
    case $language in
    c)      program=("$BUILD/heat") ;;
    python) program=(python3 "$ROOT/examples/heat-python/heat.py") ;;
    *)      program=("$BUILD/heat-$language") ;;
    esac
    mkdir -p "$prefix"
    (cd "$prefix" && exec "$TESTBED" run -n 4 --mpi "$MPI" --timeout 120 --env SCR_PREFIX="$prefix" --env SCR_FLUSH=1 \
        --env PYTHONPATH="$BUILD" --env PYTHONDONTWRITEBYTECODE=1 -- "${program[@]}" -x 61 -y 41 -c 20 -s "$steps" "$@") \
        >"$WORK/out" 2>&1 </dev/null || { cat "$WORK/out"; return 1; }
}
leg() { # PREFIX LANGUAGE STEPS FROM: the program restarts from the checkpoint of step FROM
    heat "$1" "$2" "$3" -o "$1/field" && { grep -x "restarted from heat.$4 at step $4" "$WORK/out" || { cat "$WORK/out"; return 1; }; }
}
checkpoints() { (cd "$1" && find . -name 'rank_*.ckpt' | sort | xargs sha256sum); }

"$TESTBED" wipe
is "C computes a field" heat "$WORK/reference" c 300 -o "$WORK/reference/field"
is "... with 14 checkpoints of 4 ranks" same 56 "$(checkpoints "$WORK/reference" | wc -l)"

# Each language restarts from the cache, after the loss of a node, and then from the prefix directory.
for way in $(drawn 1 cache prefix); do
    ring=$WORK/$way
    "$TESTBED" wipe
    languages=(c fortran cpp python go c)
    [ $way = cache ] || languages=(c go python cpp fortran c)
    is "the ring begins with ${languages[0]}" heat "$ring" "${languages[0]}" 50
    for i in 1 2 3 4 5; do
        if [ $way = cache ]; then
            is "a node is lost" "$TESTBED" lose "$("$TESTBED" nodes | tail -n 1)"
        else
            "$TESTBED" wipe
        fi
        last=$((((i * 50 - 1) / 20) * 20))
        is "${languages[i]} continues from the checkpoint of ${languages[i - 1]}, from the $way" \
            leg "$ring" "${languages[i]}" $((i * 50 + 50)) $last
    done
    is "... to the same field" cmp "$WORK/reference/field" "$ring/field"
    is "... by the same checkpoints" same "$(checkpoints "$WORK/reference")" "$(checkpoints "$ring")"
done
