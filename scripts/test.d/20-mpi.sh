# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# mpi/system under mpirun: the suite that mpi/local passes in `go test`, on
# several numbers of ranks.  Programs (package main) below mpi/system are run as
# they are, test files that need the tag mpi as a test binary.
. "$(dirname "$0")/lib.bash"

"$TESTBED" up 1 || exit 1

run() { # PROGRAM
    local n
    for n in 1 2 3 4 7; do
        is "$(basename "$1"), $n ranks" "$TESTBED" run -n "$n" --mpi "$MPI" --timeout 300 -- "$1"
    done
}

export CC=$MPICC CGO_ENABLED=1
for package in $(go list -tags mpi -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./mpi/system/...); do
    program=$BUILD/test-${package##*/}
    is "build $package" go build -tags mpi -o "$program" "$package"
    [ ! -x "$program" ] || run "$program"
done
for package in $(go list -tags mpi -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./mpi/system/...); do
    program=$BUILD/${package##*/}.test
    is "build the tests of $package" go test -tags mpi -c -o "$program" "$package"
    [ ! -x "$program" ] || run "$program"
done
