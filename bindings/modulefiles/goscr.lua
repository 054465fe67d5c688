-- goscr for one MPI: for Lmod.
local mpi     = "@MPI@"
local version = "@VERSION@"

-- Paths are relative to this file, so that the tree can be moved.
local here    = myFileName():match("(.*)/")
local root    = pathJoin(here, "@ROOT@")
local libdir  = pathJoin(here, "@LIBDIR@")
local lib     = pathJoin(libdir, "goscr", mpi)

help("goscr " .. version .. ", the checkpoint library with SCR's interface, for programs of " .. mpi)
whatis("Name: goscr")
whatis("Version: " .. version)
whatis("Description: scalable checkpoint/restart, for " .. mpi)

conflict("goscr")
setenv("SCR_LIB", lib)
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(here, "@MANDIR@"))
prepend_path("CPATH", pathJoin(root, "include"))
prepend_path("LIBRARY_PATH", lib)
prepend_path("LD_LIBRARY_PATH", lib)
prepend_path("PKG_CONFIG_PATH", pathJoin(lib, "pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", root)
setenv("GOSCR_MPI", mpi)
prepend_path("PYTHONPATH", pathJoin(libdir, "python"))
