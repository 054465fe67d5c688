# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016
# Test: one MPI, 30 s
#
# Caches and prefix directories on ext4, XFS, and ext2, which keeps times in whole seconds:
# programs under mpirun, and once the Go tests of the packages that read and
# write files.  Then what several nodes see of a prefix directory when each caches names,
# attributes and data until a file is opened, as with NFS.
. "$(dirname "$0")/lib.bash"

PATH=$PATH:/usr/sbin:/sbin
MPICC='' "$ROOT/scripts/deps" --install filesystems >/dev/null 2>&1
if ! unshare --mount true 2>/dev/null || ! losetup --find >/dev/null 2>&1; then
    echo "ok skipped: to mount file systems, root and a free loop device are needed"
    exit 0
fi
image=$(mktemp -d /dev/shm/goscr-test-fs.XXXXXX) || exit 1
trap 'rm -rf "$image"' EXIT

is "the program modes" client modes
mapfile -t packages < <(drawn 2 hash internal/prefix/transfer internal/prefix internal/node/scavenge internal/node/cache internal/session)
if [ "$ONCE" ]; then
    for package in "${packages[@]}"; do
        is "tests of $package build" go test -c -o "$WORK/${package//\//-}.test" "./$package"
    done
fi

as=() # a command that runs another, as all of a job do
# job RANKS [NAME=VALUE]... -- PROGRAM...: in the prefix directory; output in $WORK/out
job() {
    local ranks=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=(--env "$1")
        shift
    done
    shift
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$MPI" --timeout 120 --env SCR_PREFIX="$prefix" \
        --env SCR_JOB_ID=fs --env SCR_DEBUG=1 "${options[@]}" -- "${as[@]}" "$@") >"$WORK/out" 2>&1 </dev/null
}
# says TEXT COMMAND...: the command succeeds, and its job prints the text.
says() {
    local text=$1
    shift
    "$@" && grep -q -- "$text" "$WORK/out" || { echo "no \"$text\":"; cat "$WORK/out"; false; }
}
index() { TESTBED_NODE=node3 "${as[@]}" "$BUILD/scr_index" -p "$prefix" "$@"; }
valid() { index --list 2>/dev/null | awk 'NR > 1 && $2 == "YES" { print $NF }' | sort | paste -sd ' '; }

# programs NAME: with the prefix directory $prefix, on nodes of the testbed.
programs() {
    is "$1: two checkpoints are flushed" says "complete 2" job 4 SCR_FLUSH=1 -- "$WORK/modes" -n 2
    is "$1: ... both are in the index" same "ckpt.1 ckpt.2" "$(valid)"
    is "$1: ... every byte is what was written" index --verify
    "$TESTBED" lose --no-spare node1
    is "$1: a node is lost: a restart" says "restarted 2 of 4" job 4 SCR_FLUSH=1 -- "$WORK/modes" -n 1
    "$TESTBED" wipe
    is "$1: all nodes are lost: a restart" says "restarted 3 of 4" job 4 SCR_FLUSH=1 SCR_FLUSH_ASYNC=1 -- "$WORK/modes" -n 1
    is "$1: ... continues" same "ckpt.1 ckpt.2 ckpt.3 ckpt.4" "$(valid)"
    is "$1: ... and again every byte" index --verify
}

# ran COMMAND...: it succeeds, and there were tests of these names.
ran() {
    "$@" >"$WORK/ran" 2>&1 && ! grep -q 'no tests to run' "$WORK/ran" || { cat "$WORK/ran"; false; }
}
# tests NAME: the Go tests, below $mount.
tests() {
    local package
    mkdir "$mount/tmp" "$mount/base"
    chmod 1777 "$mount/tmp" "$mount/base"
    for package in "${packages[@]}"; do
        only=.
        [ "$package" != internal/session ] || only="^(TestCore|TestFull)\$" # the others would take minutes
        is "$1: tests of $package" ran env -C "$ROOT/$package" TMPDIR="$mount/tmp" GOSCR_TEST_BASE="$mount/base" \
            "$WORK/${package//\//-}.test" -test.run "$only" -test.timeout 4h
    done
    rm -rf "$mount/tmp" "$mount/base"
}

on() { # KIND: in a mount namespace of its own
    mount=$image/mount prefix=$image/mount/prefix
    export TESTBED_DIR=$mount/testbed
    mkdir -p "$mount"
    truncate -s 600M "$image/$1"
    case $1 in
    ext2) mkfs.ext2 -qF -I 128 "$image/$1" 2>/dev/null ;; # inodes without room for nanoseconds
    ext4) mkfs.ext4 -qF "$image/$1" ;;
    xfs)  mkfs.xfs -qf "$image/$1" ;;
    esac && mount -o loop "$image/$1" "$mount" || { echo "not ok $1 can be mounted"; return; }
    chmod 1777 "$mount"
    mkdir -p "$prefix"
    is "$1: four nodes" "$TESTBED" up 4
    programs "$1"
    "$TESTBED" down
    [ ! "$ONCE" ] || tests "$1"
    umount "$mount"
    rm -f "$image/$1"
}

# nodes: each has a mount of its own of the prefix directory, and caches it.
nodes() {
    local node backing=$image/backing log
    prefix=$image/prefix
    mkdir -p "$backing" "$prefix"
    export TESTBED_DIR=$image/testbed
    is "nodes: four" "$TESTBED" up 4
    # The test binary serves a file system until its stdin ends.
    mkfifo "$image/serving"
    exec {serving}<>"$image/serving"
    for node in node0 node1 node2 node3; do
        mkdir -p "$image/client/$node"
        log=$image/client/$node.log
        env GOSCR_FAULTFS_BACKING="$backing" GOSCR_FAULTFS_BACKING_DIR="$image/client/$node" GOSCR_FAULTFS_BACKING_CACHED=1h \
            "$WORK/faultfs.test" <"$image/serving" >/dev/null 2>"$log" {serving}>&- &
        within 60 grep -q . "$log"
        grep -q '^mounted$' "$log" || { echo "ok skipped: FUSE: $(cat "$log")"; return; }
    done
    cat >"$image/client/as" <<'END'
#!/bin/bash
# as COMMAND...: on the node that TESTBED_NODE names, with its mount of the prefix directory
image=$(dirname "$(dirname "$0")")
exec unshare --mount --propagation private bash -c 'mount --bind "$0/client/$TESTBED_NODE" "$0/prefix" && exec "$@"' "$image" "$@"
END
    chmod +x "$image/client/as"
    as=("$image/client/as")
    programs nodes
    "$TESTBED" wipe
    prefix=$image/prefix/shared
    mkdir -p "$backing/shared" "$prefix"
    is "nodes: all ranks write one file" says "complete 2" job 4 SCR_CACHE_BYPASS=1 -- "$WORK/modes" -s -n 2
    is "nodes: ... and each reads all of it" says "restarted 2 of 4" job 4 SCR_CACHE_BYPASS=1 SCR_FETCH_BYPASS=1 -- "$WORK/modes" -s -a
    "$TESTBED" down
    as=()
    exec {serving}>&-
    wait
}

# The functions above, in a mount namespace.
inside() {
    unshare --mount --propagation private bash -c "$(declare -p image WORK ROOT BUILD MPI ONCE TESTBED packages as)
$(declare -f); set -u; $1"
}

is "faultfs builds" go test -c -o "$WORK/faultfs.test" ./test/faultfs
mapfile -t list < <(drawn 2 "on ext4" "on xfs" "on ext2" nodes)
for kind in "${list[@]}"; do
    inside "$kind"
done
