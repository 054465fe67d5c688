# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# The batch scripts to copy, as they are, with launchers that only tell how they
# were called.  Those for srun and mpirun run for real in 90-slurm.sh.
. "$(dirname "$0")/lib.bash"

if [ "$MPI" != openmpi ]; then
    echo "ok which MPI makes no difference here"
    exit 0
fi
bin=$WORK/bin dir=$WORK/job calls=$WORK/calls
mkdir "$bin"
script() { # NAME, the text from stdin
    { echo '#!/bin/bash'; cat; } >"$bin/$1" && chmod 755 "$bin/$1"
}
for name in srun mpirun flux jsrun aprun; do
    script "$name" <<END
echo "$name \$*" | sed 's, env SCR_.* ./app, env VARIABLES ./app,' >>"$calls"
while [ "\$1" != ./app ]; do
    case \$1 in SCR_*=*) export "\$1" ;; esac
    shift
done
exec "\$@"
END
done
# Nodes answer by this one, unless they are lost.
script ssh <<END
while [ "\$1" = -n ] || [ "\$1" = -o ]; do [ "\$1" = -n ] || shift; shift; done
[ ! -e "$WORK/dead.\$1" ] || { echo "ssh: connect to host \$1 port 22: No route to host" >&2; exit 255; }
shift
exec bash -c "\$*"
END
script scr_postrun <<END
echo "scr_postrun \$*" >>"$calls"
exec "$BUILD/scr_postrun" "\$@"
END

export SCR_RESOURCE_MANAGER=NONE SCR_REMOTE_SHELL=SSH SCR_JOB_ID=templates SCR_CNTL_BASE=$WORK/cntl SCR_CACHE_BASE=$WORK/cache

# fresh LAUNCHER RUNS: a job on five nodes that has not begun, one of which it may
# lose.  RUNS says what the program does in which run.
fresh() {
    rm -rf "$dir" "$calls" "$WORK"/dead.*
    mkdir "$dir" && : >"$calls"
    export SCR_PREFIX=$dir SCR_NODELIST='n[1-5]' LOST=n2
    [ "$1" != aprun ] || { SCR_NODELIST='nid0000[1-5]' LOST=nid00002; }
    cat >"$dir/app" <<END
#!/bin/bash
[ "\$SCR_JOB_ID" = templates ] || exit 90
echo x >>runs
case \$(wc -l <runs) in
$2
*) exit 91 ;;
esac
END
    chmod 755 "$dir/app"
}
begin() { # FILE
    (cd "$dir" && PATH=$bin:$BUILD:$PATH exec bash "$1") >"$WORK/out" 2>&1 &
    job=$!
}
template() { # NAME
    begin "$ROOT/scripts/scr_$1.sh"
    wait "$job"
}
status() { # WANT COMMAND...
    local want=$1
    shift
    "$@"
    same "$want" $? || { cat "$WORK/out"; return 1; }
}
called() { same "$1" "$(cat "$calls")"; }
rows() { printf '%s\n' "$@"; }

# once LAUNCHER CALL; loop LAUNCHER FIRST-CALL SECOND-CALL
once() {
    fresh "$1" '1) exit 7 ;;'
    is "scr_$1.sh: one run, whose status it is" status 7 template "$1"
    is "... by the command line that it should be" called "$(rows "$2" 'scr_postrun ')"
}
loop() {
    fresh "$1" "1) touch '$WORK'/dead.\$LOST; exit 1 ;; 2) rm '$WORK'/dead.*; exit 1 ;; 3) exit 0 ;;"
    is "scr_${1}_loop.sh: a node is lost, and comes back" status 0 template "${1}_loop"
    is "... by command lines that avoid it from then on" called "$(rows "$2" "$3" "$3" "scr_postrun -d $LOST")"
}
variables='env VARIABLES'
once srun 'srun -n8 -N4 ./app'
loop srun 'srun -n8 -N4 ./app' 'srun --exclude=n2 -n8 -N4 ./app'
once mpirun "mpirun -host n1:2,n2:2,n3:2,n4:2,n5:2 -n 8 $variables ./app"
loop mpirun "mpirun -host n1:2,n2:2,n3:2,n4:2 -n 8 $variables ./app" "mpirun -host n1:2,n3:2,n4:2,n5:2 -n 8 $variables ./app"
once flux 'flux run -n8 -N4 ./app'
loop flux 'flux run -n8 -N4 ./app' 'flux run --requires=not host:n2 -n8 -N4 ./app'
once jsrun 'jsrun -n4 -a2 -c2 ./app'
loop jsrun 'jsrun -n4 -a2 -c2 ./app' 'jsrun --exclude_hosts=n2 -n4 -a2 -c2 ./app'
once aprun 'aprun -n 8 -N 2 ./app'
loop aprun 'aprun -n 8 -N 2 ./app' 'aprun -L 1,3,4,5 -n 8 -N 2 ./app'

# ------------------------------------------------- what is the same in all of them

tail_of() { sed -n '/^# -* the same for every launcher/,$p' "$1"; }
for file in scripts/scr_*.sh; do
    model=scripts/scr_srun.sh
    case $file in *_loop.sh) model=scripts/scr_srun_loop.sh ;; esac
    is "$(basename "$file"), below the line, is as $(basename "$model")" same "$(tail_of "$model")" "$(tail_of "$file")"
    is "... which is something" same 1 "$(tail_of "$file" | grep -c '^scr_prerun')"
done

fresh srun '*) exit 3 ;;'
is "the number of runs is limited" status 3 template srun_loop
is "... to what the script says" same 10 "$(grep -c . "$dir/runs")"

fresh srun ''
touch "$WORK/dead.n2" "$WORK/dead.n3"
is "too few nodes for a run" status 1 template srun_loop
is "... which it says" grep -q '3 nodes are left, and 4 are needed (SCR_MIN_NODES)' "$WORK/out"
is "... and brings home what there is" called 'scr_postrun -d n[2-3]'

fresh srun ''
"$BUILD/scr_halt" "$dir" >/dev/null
is "somebody wants it to stop" status 1 template srun_loop
is "... which it says" grep -q 'not started again: scr_halt' "$WORK/out"

fresh srun "1) '$BUILD/scr_halt' . ; exit 4 ;;"
is "... and while it runs" status 4 template srun_loop

# A signal reaches the program, which takes its time and has its own status.
for which in srun srun_loop; do
    fresh srun '1) trap "sleep 0.3; exit 9" TERM; touch ready; while :; do sleep 0.05; done ;;'
    begin "$ROOT/scripts/scr_$which.sh"
    is "scr_$which.sh: the program runs" within 60 test -e "$dir/ready"
    kill -TERM "$job"
    wait "$job"
    is "... and a signal is passed on" same 9 $?
    is "... once, and then checkpoints are brought home" same "$(rows 'srun -n8 -N4 ./app' scr_postrun)" "$(sed 's/ -d *//; s/ *$//' "$calls")"
done

# One that does not end is killed.
fresh srun '1) trap "" TERM; touch ready; exec sleep 1000 ;;'
sed 's/^grace=60$/grace=1/' scripts/scr_srun_loop.sh >"$WORK/impatient.sh"
begin "$WORK/impatient.sh"
is "a program that does not listen" within 60 test -e "$dir/ready"
kill -TERM "$job"
wait "$job"
is "... is killed in time" same 137 $?
