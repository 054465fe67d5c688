#%Module1.0
# goscr for one MPI: for Environment Modules, and for Lmod without the file beside it.
set mpi     "@MPI@"
set version "@VERSION@"

# Paths are relative to this file, so that the tree can be moved.
set here    [file dirname $ModulesCurrentModulefile]
set root    [file normalize $here/@ROOT@]
set lib     [file normalize $here/@LIBDIR@]/goscr/$mpi

proc ModulesHelp { } {
    global version mpi
    puts stderr "goscr $version, the checkpoint library with SCR's interface, for programs of $mpi"
}
module-whatis "goscr $version, scalable checkpoint/restart, for $mpi"

conflict goscr
setenv       SCR_LIB          $lib
prepend-path PATH             $root/bin
prepend-path MANPATH          [file normalize $here/@MANDIR@]
prepend-path CPATH            $root/include
prepend-path LIBRARY_PATH     $lib
prepend-path LD_LIBRARY_PATH  $lib
prepend-path PKG_CONFIG_PATH  $lib/pkgconfig
prepend-path CMAKE_PREFIX_PATH $root
setenv       GOSCR_MPI        $mpi
prepend-path PYTHONPATH       [file normalize $here/@LIBDIR@]/python
