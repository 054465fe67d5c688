# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: no MPI, 120 s
#
# A release has the same bytes wherever, whenever and by whomever it is made. Packages and the list of
# modules take minutes, and are made with TEST_SIZE=all only.
. "$(dirname "$0")/lib.bash"

git -C "$ROOT" rev-parse --verify -q HEAD >/dev/null || { echo "ok skipped: these sources have no commits"; exit 0; }
"$ROOT/scripts/deps" --install wheel >/dev/null 2>&1 || { echo "ok skipped: Python has no build"; exit 0; }
parts="wheel site"
[ "${TEST_SIZE:-}" != all ] || parts="packages wheel site modules"

# release NAME FROM PATH VARIABLE...: a release of a clone of FROM at that path, in $WORK/NAME.
release() {
    local name=$1 from=$2 path=$WORK/$3
    shift 3
    git clone -q "$from" "$path" && (cd "$path" && umask "${mask:-022}" && env PARTS="$parts" "$@" scripts/release "$WORK/$name") 2>&1
}

is "a release" release first "$ROOT" sources TZ=America/New_York LC_ALL=C
mask=077
is "another, elsewhere, of another time zone, umask and locale" release second "$WORK/sources" a/longer/path/of/goscr TZ=Asia/Tokyo LC_ALL=C.UTF-8 CFLAGS=-O0
is "... has the same bytes" diff -r "$WORK/first" "$WORK/second"
is "SHA256SUMS has all files" bash -c 'cd "$1" && sha256sum --quiet --check SHA256SUMS && [ "$(wc -l <SHA256SUMS)" = "$(ls | grep -vc SHA256SUMS)" ]' - "$WORK/first"
version=$("$WORK/sources/scripts/version")
for file in "goscr-$version.tar.gz" "goscr-$version-site.tar.gz" "*.whl"; do
    is "it has $file" bash -c 'cd "$1" && test -s $2' - "$WORK/first" "$file"
done
if [ "${TEST_SIZE:-}" = all ]; then
    is "it has packages of both kinds" bash -c '[ "$(ls "$1"/*.deb | wc -l)" -ge 4 ] && [ "$(ls "$1"/*.rpm | wc -l)" -ge 4 ]' - "$WORK/first"
    is "the list of modules has those that are linked" bash -c '
        cd "$1" && go list -deps -f "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}" ./cmd/scr ./scr | sort -u >"$3" && [ -s "$3" ] &&
            while read -r module; do grep -q "\"name\": \"$module\"" "$2" || { echo "$module is missing"; exit 1; }; done <"$3"' - \
        "$WORK/sources" "$WORK/first/goscr-$version.cdx.json" "$WORK/modules"
fi
is "the archive has all modules" bash -c 'tar -tf "$1" | grep -q /vendor/modules.txt' - "$WORK/first/goscr-$version.tar.gz"
is "a directory that is not empty is refused" bash -c 'cd "$1" && ! scripts/release "$2" 2>"$3" && grep -q "is not empty" "$3"' - "$WORK/sources" "$WORK/first" "$WORK/said"
echo >>"$WORK/sources/README.md"
is "a change that is not in a commit is refused" bash -c 'cd "$1" && ! scripts/release "$2" 2>"$3" && grep -q "commit them" "$3"' - "$WORK/sources" "$WORK/third" "$WORK/said"
