# find_package(isobit) gives the target isobit::isobit. Relocatable: the prefix
# is found from this file, PREFIX/lib/cmake/isobit/isobitConfig.cmake.
get_filename_component(isobit_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET isobit::isobit)
  add_library(isobit::isobit SHARED IMPORTED)
  set_target_properties(
    isobit::isobit
    PROPERTIES IMPORTED_LOCATION "${isobit_prefix}/lib/libisobit.so.1"
               IMPORTED_SONAME "libisobit.so.1"
               INTERFACE_INCLUDE_DIRECTORIES "${isobit_prefix}/include")
endif()
