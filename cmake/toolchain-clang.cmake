# SPDX-License-Identifier: Apache-2.0
# Chooses clang for the tsan preset, by whichever name this system has it.
# Invariant: clang-14 first, because the tree is checked with it; newer ones follow.
if(NOT CMAKE_CXX_COMPILER)
  foreach(suffix -14 -18 -19 -17 -16 -15 -20 "")
    find_program(TENON_CLANG clang${suffix})
    find_program(TENON_CLANGXX clang++${suffix})
    if(TENON_CLANG AND TENON_CLANGXX)
      break()
    endif()
    unset(TENON_CLANG CACHE)
    unset(TENON_CLANGXX CACHE)
  endforeach()
  if(NOT TENON_CLANGXX)
    message(FATAL_ERROR "clang was not found; ./dev build tsan installs it")
  endif()
  set(CMAKE_C_COMPILER "${TENON_CLANG}")
  set(CMAKE_CXX_COMPILER "${TENON_CLANGXX}")
endif()
