# SPDX-License-Identifier: Apache-2.0
# tenon_warnings: the one set of warning flags, linked PRIVATE by every target of this repository.
# Invariant: never part of an exported interface, so a user's compiler is not bound by our taste.
add_library(tenon_warnings INTERFACE)
target_compile_options(tenon_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wundef -Wformat=2 -Wcast-align
  -Wno-missing-field-initializers  # tables are designated: a slot left out is NULL and means unsupported
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
  $<$<COMPILE_LANGUAGE:CXX>:-Wextra-semi>
  $<$<BOOL:${TENON_WERROR}>:-Werror>)
# False at -O2 where a literal and a string are added (GCC 105651), and of members of temporaries (GCC 105562).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14 AND
   CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(tenon_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
# Of files that are joined, these tell about their neighbours.
if(TENON_UNITY)
  target_compile_options(tenon_warnings INTERFACE -Wno-shadow $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
