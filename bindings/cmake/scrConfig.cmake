# find_package(scr) reads this file. It defines targets to link with, which also set the
# directory of the headers:
#
#   scr::scr    C and C++
#   scr::scrf   Fortran: scrf.h and, for gfortran, the module scr; not if SCR was built without a Fortran compiler
#   scr::scr_cr C, C++ and Fortran, for programs that take part in their checkpoints: scr_cr.h, module scr_cr
#   scr::scr-static, scr::scrf-static   the same, for static linking
#
# The program must find MPI itself, and it must be the MPI that SCR was built for. Libraries
# for several MPIs may be installed: GOSCR_MPI, a variable of CMake or of the environment, names one.
# Without it, the one is chosen that is for the MPI of the compiler: of MPI_C_COMPILER or the like, which
# find_package(MPI) sets, else of CMAKE_C_COMPILER or the like. If the compiler has no mpi.h, the default is taken.
# GOSCR_MPI_CHOSEN is set to what was chosen.

get_filename_component(_scr_prefix "${CMAKE_CURRENT_LIST_DIR}/@PREFIX@" ABSOLUTE)
get_filename_component(_scr_libdir "${CMAKE_CURRENT_LIST_DIR}/@LIBDIR@" ABSOLUTE)
get_filename_component(_scr_include "${CMAKE_CURRENT_LIST_DIR}/@INCLUDEDIR@" ABSOLUTE)

set(GOSCR_MPI_CHOSEN "${GOSCR_MPI}")
if(NOT GOSCR_MPI_CHOSEN)
  set(GOSCR_MPI_CHOSEN "$ENV{GOSCR_MPI}")
endif()
set(_scr_why "")
if(NOT GOSCR_MPI_CHOSEN)
  foreach(_scr_wrapper "${MPI_C_COMPILER}" "${MPI_CXX_COMPILER}" "${MPI_Fortran_COMPILER}"
      "${CMAKE_C_COMPILER}" "${CMAKE_CXX_COMPILER}" "${CMAKE_Fortran_COMPILER}")
    if(NOT _scr_wrapper OR GOSCR_MPI_CHOSEN OR _scr_why)
      continue()
    endif()
    execute_process(COMMAND "${_scr_prefix}/bin/scr" mpi --describe --mpicc "${_scr_wrapper}"
      RESULT_VARIABLE _scr_status OUTPUT_QUIET ERROR_QUIET)
    if(NOT _scr_status EQUAL 0)
      continue() # it has no mpi.h
    endif()
    execute_process(COMMAND "${_scr_prefix}/bin/scr" mpi --libdir "${_scr_libdir}" --mpicc "${_scr_wrapper}"
      RESULT_VARIABLE _scr_status OUTPUT_VARIABLE GOSCR_MPI_CHOSEN OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_VARIABLE _scr_why ERROR_STRIP_TRAILING_WHITESPACE)
  endforeach()
endif()
if(GOSCR_MPI_CHOSEN)
  set(_scr_lib "${_scr_libdir}/goscr/${GOSCR_MPI_CHOSEN}")
else()
  set(_scr_lib "${_scr_libdir}")
endif()

foreach(_scr_name scr scrf scr_cr)
  if(NOT TARGET scr::${_scr_name})
    if(_scr_why AND NOT GOSCR_MPI_CHOSEN)
      set(scr_FOUND FALSE)
      set(scr_NOT_FOUND_MESSAGE "${_scr_why}")
      break()
    endif()
    if(_scr_name STREQUAL "scrf" AND NOT EXISTS "${_scr_lib}/pkgconfig/scrf.pc")
      continue() # built without a Fortran compiler
    endif()
    if(NOT EXISTS "${_scr_lib}/lib${_scr_name}.so")
      set(scr_FOUND FALSE)
      file(GLOB _scr_there RELATIVE "${_scr_libdir}/goscr" "${_scr_libdir}/goscr/*/libscr.so")
      string(REPLACE "/libscr.so" "" _scr_there "${_scr_there}")
      string(REPLACE ";" ", " _scr_there "${_scr_there}")
      set(scr_NOT_FOUND_MESSAGE "${_scr_lib}/lib${_scr_name}.so is missing; libraries for these MPIs are installed: ${_scr_there}")
      break()
    endif()
    add_library(scr::${_scr_name} SHARED IMPORTED)
    set_target_properties(scr::${_scr_name} PROPERTIES
      IMPORTED_LOCATION "${_scr_lib}/lib${_scr_name}.so"
      IMPORTED_SONAME "lib${_scr_name}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_scr_include}")
  endif()
endforeach()

foreach(_scr_name scrf scr_cr)
  if(TARGET scr::${_scr_name})
    set_target_properties(scr::${_scr_name} PROPERTIES INTERFACE_LINK_LIBRARIES scr::scr)
  endif()
endforeach()

foreach(_scr_name scr scrf)
  if(EXISTS "${_scr_lib}/lib${_scr_name}.a" AND NOT TARGET scr::${_scr_name}-static)
    add_library(scr::${_scr_name}-static STATIC IMPORTED)
    set_target_properties(scr::${_scr_name}-static PROPERTIES
      IMPORTED_LOCATION "${_scr_lib}/lib${_scr_name}.a"
      INTERFACE_INCLUDE_DIRECTORIES "${_scr_include}"
      INTERFACE_LINK_LIBRARIES "-lpthread;-ldl")
  endif()
endforeach()

foreach(_scr_name prefix libdir include lib why wrapper status there name)
  unset(_scr_${_scr_name})
endforeach()
unset(_scr_name)
