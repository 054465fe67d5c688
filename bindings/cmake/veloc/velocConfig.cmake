# find_package(veloc) reads this file if veloc_DIR is its directory. It defines veloc::client, and veloc::veloc-client, which are
# the same: libveloc-client.so of goscr and its headers. It is for the MPI that find_package(scr) chooses (scrConfig.cmake).

find_package(scr REQUIRED PATHS "${CMAKE_CURRENT_LIST_DIR}/../scr" NO_DEFAULT_PATH)
get_target_property(_veloc_lib scr::scr IMPORTED_LOCATION)
get_filename_component(_veloc_lib "${_veloc_lib}" DIRECTORY)
get_filename_component(_veloc_include "${CMAKE_CURRENT_LIST_DIR}/@INCLUDEDIR@/goscr" ABSOLUTE)

foreach(_veloc_name client veloc-client)
  if(NOT TARGET veloc::${_veloc_name})
    add_library(veloc::${_veloc_name} SHARED IMPORTED)
    set_target_properties(veloc::${_veloc_name} PROPERTIES
      IMPORTED_LOCATION "${_veloc_lib}/libveloc-client.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_veloc_include}"
      INTERFACE_LINK_LIBRARIES scr::scr)
  endif()
endforeach()
unset(_veloc_lib)
unset(_veloc_include)
