# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# The library as a linker and a compiler see it.
. "$(dirname "$0")/lib.bash"

cat >"$WORK/use.c" <<'END'
#include "scr.h"
#include "scr.h"
#ifdef WITH_MPI
int job(MPI_Comm comm);
int job(MPI_Comm comm) { return SCR_Init_comm(comm); }
#endif
int use(char* name, int* flag);
int use(char* name, int* flag)
{
    return SCR_Init() + SCR_Finalize() + SCR_Have_restart(flag, name) + SCR_Start_restart(name) +
        SCR_Complete_restart(1) + SCR_Need_checkpoint(flag) + SCR_Start_checkpoint() +
        SCR_Complete_checkpoint(1) + SCR_Start_output("a", SCR_FLAG_NONE) +
        SCR_Start_output("b", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT) + SCR_Complete_output(1) +
        SCR_Route_file("c", name) + SCR_Should_exit(flag) + SCR_Current("d") + SCR_Drop("e") +
        SCR_Delete("f") + (SCR_Config("SCR_DEBUG=1") != 0) + (SCR_Configf("SCR_DEBUG=%d", 1) != 0) +
        (SCR_Get_version() != 0) + SCR_SUCCESS;
}
int sizes[SCR_MAX_FILENAME == 1024 && SCR_SUCCESS == 0 && SCR_FLAG_NONE == 0 &&
          SCR_FLAG_CHECKPOINT == 1 && SCR_FLAG_OUTPUT == 2 ? 1 : -1];
END
strict=(-pedantic-errors -Wall -Wextra -Wstrict-prototypes -Werror -I"$BUILD")
for std in c89 c99 c11; do
    is "scr.h as $std" cc -std=$std "${strict[@]}" -c -o "$WORK/use.o" "$WORK/use.c"
done
is "a C program finds all functions" "$MPICC" -std=c99 -DWITH_MPI -include mpi.h -I"$BUILD" -o "$WORK/use" \
    -x c "$WORK/use.c" <(echo 'int main(void) { return 0; }') -x none -L"$BUILD" -lscr -Wl,--no-undefined
strict=(-pedantic-errors -Wall -Wextra -Werror -I"$BUILD")
for std in c++98 c++03 c++11 c++14 c++17 c++20; do
    is "scr.h as $std" c++ -x c++ -std=$std "${strict[@]}" -c -o "$WORK/use.o" "$WORK/use.c"
done

exported() { nm -D --defined-only "$BUILD/libscr.so" | awk '{ print $3 }' | sed 's/@.*//'; }
soname() { readelf -d "$BUILD/libscr.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p'; }

is "no symbol is exported but those of the interface" same "" "$(exported | grep -v '^SCR_' | sort)"
is "what scr.h declares is what is exported" same \
    "$(grep -o '^[a-z].*SCR_[A-Z][A-Za-z_]*(' "$BUILD/scr.h" | grep -o 'SCR_[A-Za-z_]*' | sort -u)" \
    "$(exported | grep '^SCR_' | sort -u)"
is "the soname is libscr.so" same libscr.so "$(soname)"
is "the library needs this MPI and no other" \
    same "$MPI" "$(readelf -d "$BUILD/libscr.so" | awk '/NEEDED/ && /libmpi\.|libmpi_/ { print "openmpi" }
        /NEEDED/ && /libmpich/ { print "mpich" }' | sort -u)"

is "scr is static" bash -c '! readelf -lW "$1" | grep -q INTERP' - "$BUILD/scr"
for name in scr_index scr_print scr_print_hash_file scr_crc32; do
    is "$name is there" test -x "$BUILD/$name"
done
printf 123456789 >"$WORK/nine"
is "scr_crc32 of 123456789" grep -qi cbf43926 <("$BUILD/scr_crc32" "$WORK/nine" 2>&1)
