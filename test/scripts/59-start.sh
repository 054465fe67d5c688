# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 40 s
#
# The tutorial of docs/start.md: its program and its commands as they stand there. Ctrl-C comes when the program
# has printed the line that the page names, and has written the checkpoint that follows at once.
. "$(dirname "$0")/lib.bash"

page=$ROOT/docs/start.md
block() { # LANGUAGE N: prints the N-th block
    awk -v want="\`\`\`$1" -v n="$2" '$0 == want { k++; on = k == n; next } /^```/ { on = 0 } on' "$page"
}
mkdir -p "$WORK/prefix" "$WORK/bin"
cd "$WORK/prefix" || exit 1
block c 1 >sum.c
is "the page has a program" grep -q '^int main' sum.c

# The names that the page uses, for what was built: an installed goscr needs no -I, -L or PATH.
mpicc() { "$MPICC" -Werror "$@" -I"$BUILD" -L"$BUILD" -Wl,-rpath,"$BUILD"; }
mpirun() {
    local o=()
    [ "$MPI" != openmpi ] || o=(--oversubscribe --allow-run-as-root)
    exec timeout --foreground 900 "mpirun.$MPI" "${o[@]}" "$@"
}
export PATH=$BUILD:$PATH SCR_CACHE_BASE=$WORK/cache SCR_CNTL_BASE=$WORK/cache SCR_JOB_ID=start
commands() { block sh "$1"; }

commands 1 >first
is "the commands of the first run are there" grep -q '^mpirun -n 4 ./sum$' first
eval "$(grep '^mpicc' first)" >built 2>&1
is "the program builds without a warning" test -x sum -a ! -s built
eval "$(grep '^export' first)"
( eval "$(grep '^mpirun' first)" ) >out 2>err &
run=$!
seen() { grep -q '^step 300$' out && scr_index 2>/dev/null | grep -q ' step\.300$' || ! kill -0 "$run"; }
within 600 seen
kill -INT "$run" # timeout passes it on to mpirun, once: after two, Open MPI's leaves files in /dev/shm
wait "$run"
is "the first run was interrupted after step 300" bash -c 'grep -qx "step 300" out && ! grep -q ^sum out'

cat out err >first.out
( eval "$(commands 2)" ) >out 2>err
is "the second run ends" grep -q '^sum ' out
step=$(sed -n 's/^continues after step //p' out)
continued() { test "${step:-0}" -ge 300 -a $(("${step:-0}" % 50)) = 0 || { echo "step ${step:-none}"; cat first.out out err; return 1; }; }
is "... and has continued after a checkpoint, of step 300 or one that the interrupt came after" continued
is "... with the sum that the page has" same "$(grep -o 'sum [0-9.]*[0-9]' "$page" | head -n 1)" "$(grep '^sum ' out)"

( eval "$(commands 3)" ) >shown 2>err
is "scr_index and scr_status know the last checkpoint" grep -q 'step.1000' shown
