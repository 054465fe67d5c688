# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 60 s
#
# The tutorial of docs/start.md: its program and its commands as they stand there. Ctrl-C comes when the program
# has printed the line that the page names, and has written the checkpoint that follows at once.
. "$(dirname "$0")/lib.bash"

page=$ROOT/docs/start.md
block() { # LANGUAGE N: prints the N-th block
    awk -v want="\`\`\`$1" -v n="$2" '$0 == want { k++; on = k == n; next } /^```/ { on = 0 } on' "$page"
}
commands() { block sh "$1"; }

# The names that the page uses: that what has been built is installed, and is used with this MPI.
export HOME=$WORK/home SCR_CACHE_BASE=$WORK/cache SCR_CNTL_BASE=$WORK/cache SCR_JOB_ID=start
make() { [ $# = 0 ] || command make -s -C "$ROOT" BUILD="$BUILD" "$@"; }
mpicc() { "$MPICC" -Wall -Wextra -Werror "$@"; }
mpirun() {
    local o=()
    [ "$MPI" != openmpi ] || o=(--oversubscribe --allow-run-as-root)
    exec timeout --foreground 900 "mpirun.$MPI" "${o[@]}" "$@"
}
mkdir -p "$WORK/prefix" "$HOME"
cd "$WORK/prefix" || exit 1

commands 1 >install
is "the page installs" grep -q '^make && make install' install
eval "$(cat install)" >out 2>&1
is "... and the commands are found" same "$HOME/goscr/bin/scr_index" "$(command -v scr_index)"

block c 1 >heat.c
is "the page has a program without goscr" bash -c 'grep -q "^int main" heat.c && ! grep -q SCR heat.c'
commands 2 >plain
is "the commands of the first run are there" grep -qx 'mpirun -n 4 ./heat' plain
eval "$(grep '^mpicc' plain)" >built 2>&1
is "the program builds without a warning" test -x heat -a ! -s built
( eval "$(grep '^mpirun' plain)" ) >out 2>err
is "it prints the result that the page has" same "$(grep -o 'mean temperature [0-9.]*[0-9]' "$page" | head -n 1)" "$(tail -n 1 out)"

commands 3 >first
for change in 1 2 3; do
    block diff "$change" | patch -s -F0 heat.c >patched 2>&1
    is "change $change fits the program" test ! -s patched
    rm heat
    eval "$(grep '^mpicc' first)" >built 2>&1
    is "... which builds without a warning" test -x heat -a ! -s built
done
eval "$(grep '^export' first)"
( eval "$(grep '^mpirun' first)" ) >out 2>err &
run=$!
seen() { grep -q '^step 300$' out && scr_index 2>/dev/null | grep -q ' step\.300$' || ! kill -0 "$run"; }
within 600 seen
kill -INT "$run" # timeout passes it on to mpirun, once: after two, Open MPI's leaves files in /dev/shm
wait "$run"
is "the first run was interrupted after step 300" bash -c 'grep -qx "step 300" out && ! grep -q ^mean out'

cat out err >first.out
( eval "$(commands 4)" ) >out 2>err
is "the second run ends" grep -q '^mean ' out
step=$(sed -n 's/^continues after step //p' out)
continued() { test "${step:-0}" -ge 300 -a $(("${step:-0}" % 50)) = 0 || { echo "step ${step:-none}"; cat first.out out err; return 1; }; }
is "... and has continued after a checkpoint, of step 300 or one that the interrupt came after" continued
is "... with the result of the program without goscr" same "$(grep -o 'mean temperature [0-9.]*[0-9]' "$page" | head -n 1)" "$(grep '^mean ' out)"

( eval "$(commands 5)" ) >shown 2>err
is "scr_index and scr_status know the last checkpoint" grep -q 'step.1000' shown
