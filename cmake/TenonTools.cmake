# SPDX-License-Identifier: Apache-2.0
# Faster builds with what the machine has: ccache and mold; and builds that do not name the machine.
# Invariant: none of it changes what is built, and a choice made on the command line wins.
find_program(TENON_CCACHE ccache)
if(TENON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What is not cached yet is compiled as it stands, not preprocessed first (depend mode); and precompiled headers are cached
  # if their macros may be taken for unused.
  set(launcher env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros "${TENON_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
endif()

find_program(TENON_MOLD mold)
include(CheckLinkerFlag)
if(TENON_MOLD)
  check_linker_flag(CXX -fuse-ld=mold TENON_LINKER_TAKES_MOLD)
  if(TENON_LINKER_TAKES_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
add_link_options(LINKER:--as-needed)

# GCC's own collector has less to do when it begins late.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=262144>)

# __FILE__ and debug information name files from the top of the tree, not of somebody's machine.
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

find_package(Threads REQUIRED)
