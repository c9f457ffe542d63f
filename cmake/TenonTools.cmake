# SPDX-License-Identifier: Apache-2.0
# Faster builds with what the machine has: ccache and mold; and builds that do not name the machine.
# Invariant: none of it changes what is built, and a choice made on the command line wins.
#
# No precompiled headers: with those of the library and of the tests precompiled, all of preset ci was built in an
# eighth less time (the rest is code generation, which they do not shorten), and missing includes went unseen.
find_program(TENON_CCACHE ccache)
if(TENON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${TENON_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TENON_CCACHE}")
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

# __FILE__ and debug information name files from the top of the tree, not of somebody's machine.
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

find_package(Threads REQUIRED)
