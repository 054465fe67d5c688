# find_package(scr) reads this file. It defines targets to link with, which also set the
# directory of the headers:
#
#   scr::scr    C and C++
#   scr::scrf   Fortran: scrf.h and, for gfortran, the module scr
#   scr::scr-static, scr::scrf-static   the same, for static linking
#
# The program must find MPI itself, and it must be the MPI that SCR was built for.

get_filename_component(_scr_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

foreach(_scr_name scr scrf)
  if(NOT TARGET scr::${_scr_name})
    if(NOT EXISTS "${_scr_prefix}/lib/lib${_scr_name}.so")
      set(scr_FOUND FALSE)
      set(scr_NOT_FOUND_MESSAGE "${_scr_prefix}/lib/lib${_scr_name}.so is missing: install SCR again")
      break()
    endif()
    add_library(scr::${_scr_name} SHARED IMPORTED)
    set_target_properties(scr::${_scr_name} PROPERTIES
      IMPORTED_LOCATION "${_scr_prefix}/lib/lib${_scr_name}.so"
      IMPORTED_SONAME "lib${_scr_name}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_scr_prefix}/include")
  endif()
endforeach()

if(TARGET scr::scrf)
  set_target_properties(scr::scrf PROPERTIES INTERFACE_LINK_LIBRARIES scr::scr)
endif()

foreach(_scr_name scr scrf)
  if(EXISTS "${_scr_prefix}/lib/lib${_scr_name}.a" AND NOT TARGET scr::${_scr_name}-static)
    add_library(scr::${_scr_name}-static STATIC IMPORTED)
    set_target_properties(scr::${_scr_name}-static PROPERTIES
      IMPORTED_LOCATION "${_scr_prefix}/lib/lib${_scr_name}.a"
      INTERFACE_INCLUDE_DIRECTORIES "${_scr_prefix}/include"
      INTERFACE_LINK_LIBRARIES "-lpthread;-ldl")
  endif()
endforeach()

unset(_scr_name)
unset(_scr_prefix)
