# find_package(isobit) gives the target isobit::isobit. Relocatable: the prefix
# is found from this file, PREFIX/lib/cmake/isobit/isobitConfig.cmake.
foreach(isobit_component IN LISTS isobit_FIND_COMPONENTS)
  if(isobit_FIND_REQUIRED_${isobit_component})
    set(isobit_FOUND FALSE)
    set(isobit_NOT_FOUND_MESSAGE "isobit has no components; ${isobit_component} is wanted")
    return()
  endif()
endforeach()
get_filename_component(isobit_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET isobit::isobit)
  add_library(isobit::isobit SHARED IMPORTED)
  set_target_properties(
    isobit::isobit
    PROPERTIES IMPORTED_LOCATION "${isobit_prefix}/lib/libisobit.so.1"
               IMPORTED_SONAME "libisobit.so.1"
               INTERFACE_INCLUDE_DIRECTORIES "${isobit_prefix}/include")
endif()
