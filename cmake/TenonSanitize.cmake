# SPDX-License-Identifier: Apache-2.0
# Sanitizers, switched on for the whole tree by TENON_SANITIZE.
# Invariant: library, plugins, tool and tests carry the same instrumentation, and a finding ends the process.
set(TENON_TEST_ENVIRONMENT "")

if(TENON_SANITIZE STREQUAL "address")
  set(flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(NOT TENON_SANITIZE_ALL)
    # UBSan's of each pointer, of which ASan still sees what it then touches, and of locals that are used behind their block.
    # They take longest to compile.
    list(APPEND flags -fno-sanitize=null,alignment,object-size,vptr,nonnull-attribute,returns-nonnull-attribute
         -fno-sanitize-address-use-after-scope)
  endif()
  # intercept_tls_get_addr: a dlopen'ed library's thread-locals that happen to begin 16 bytes into a page are taken for a block
  # of glibc 2.19, and LeakSanitizer dies of a header that is none. It needs no such guess: it keeps what ld.so allocated.
  list(APPEND TENON_TEST_ENVIRONMENT
       "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1:intercept_tls_get_addr=0"
       "UBSAN_OPTIONS=print_stacktrace=1"
       "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0")
elseif(TENON_SANITIZE STREQUAL "thread")
  # libgomp reports falsely under TSan; LLVM's libomp with the Archer tool tells TSan about OpenMP's own
  # ordering. Libraries that were not instrumented (oneDNN with its libgomp) are not looked into.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TENON_SANITIZE=thread needs clang (libomp and Archer); use: cmake --preset tsan")
  endif()
  set(flags -fsanitize=thread -fno-omit-frame-pointer)
  # intercept_tls_get_addr: as above; here the header that is none becomes the size of a shadow to map.
  list(APPEND TENON_TEST_ENVIRONMENT
       "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:second_deadlock_stack=1:intercept_tls_get_addr=0:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")
  get_filename_component(clang_bin "${CMAKE_CXX_COMPILER}" REALPATH)
  get_filename_component(clang_bin "${clang_bin}" DIRECTORY)
  find_library(TENON_ARCHER archer HINTS "${clang_bin}/../lib")
  if(TENON_ARCHER)
    list(APPEND TENON_TEST_ENVIRONMENT "OMP_TOOL_LIBRARIES=${TENON_ARCHER}")
  else()
    message(WARNING "libarcher.so was not found beside ${CMAKE_CXX_COMPILER}: OpenMP regions will be "
                    "reported falsely. Install the libomp package of this clang.")
  endif()
elseif(NOT TENON_SANITIZE STREQUAL "none")
  message(FATAL_ERROR "TENON_SANITIZE is '${TENON_SANITIZE}': use address, thread or none")
endif()

if(flags)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False inside libstdc++ once instrumented (GCC 105562; the others since GCC 14, of a copied vector).
    list(APPEND flags -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  add_compile_options(${flags})
  add_link_options(${flags})
else()
  # Instrumented objects take the run-time's symbols from the program, so only plain builds can insist.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:LINKER:--no-undefined>)
endif()
