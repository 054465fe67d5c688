# A program requests a version of SCR's interface. This library supports the versions
# with the same major number up to its own. (CMake does not check a request without a
# version.)
set(PACKAGE_VERSION "3.1.0")
set(PACKAGE_VERSION_COMPATIBLE FALSE)

if(PACKAGE_FIND_VERSION_MAJOR STREQUAL "3" AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
