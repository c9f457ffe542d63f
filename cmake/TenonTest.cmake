# SPDX-License-Identifier: Apache-2.0
# How a test is declared.
# Invariant: every TEST_CASE is one ctest entry that runs alone, in its own process, with a deadline. A missing
# precondition is exit status 77 and shows as "Skipped", never as "Passed"; it never hides a failure.
#
#   tenon_add_test(NAME unit_pool SOURCES pool_test.cpp LABELS core stream LIBRARIES tenon_core
#                  [TIMEOUT seconds] [DEPENDS target...] [ENVIRONMENT VAR=value...] [DEVICES cpu sim/ze...])
#   tenon_add_script_test(NAME house_includes COMMAND python3 x.py [LABELS ...] [TIMEOUT ...] [ENVIRONMENT ...])
#
# LABELS core, cpu, stream, comm and sim are run under TSan too; with tsan_full beside them, in a full run only. With DEVICES
# every case is an entry for each of them: the program is passed --device=NAME (tests/support/device.hpp), and what stands
# before the '/' is one more label. Of the simulated devices TSan takes the plain one; the others in a full run. Device cuda is
# met over the driver made for tests (tests/cuda/fakecuda).
find_package(doctest REQUIRED)
include(doctest)

set(TENON_TEST_TIMEOUT 120 CACHE STRING "Seconds a test case may take unless it says otherwise")
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tests/cache")
list(APPEND TENON_TEST_ENVIRONMENT
     "TENON_TEST_PLUGIN_DIR=${PROJECT_BINARY_DIR}/lib/tenon/plugins"
     "TENON_TEST_BUILD_DIR=${PROJECT_BINARY_DIR}"
     "TENON_FLIGHT_DIR=${PROJECT_BINARY_DIR}/tests/flight"
     "TENON_TEST_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
     "TENON_TEST_TOOL=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tenon"
     "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/tests/cache"
     "OMP_NUM_THREADS=2"
     "PYTHONDONTWRITEBYTECODE=1")

# What the TSan stage builds: the test programs it runs, and what those load and start. The tool, and with it the
# conformance kit, joins in a full run only, and so do the programs of tenon_tsan_full.
add_custom_target(tenon_tsan_tests)
add_custom_target(tenon_tsan_full)
foreach(target tenon_probe ${TENON_PLUGIN_TARGETS})
  if(TARGET ${target})
    add_dependencies(tenon_tsan_tests ${target})
  endif()
endforeach()

add_library(tenon_test_main STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/support/main.cpp")
target_link_libraries(tenon_test_main PUBLIC doctest::doctest PRIVATE tenon_warnings)
target_include_directories(tenon_test_main PUBLIC "${PROJECT_SOURCE_DIR}/tests")
# An assertion is then one call, and sooner compiled. What throws inside one is caught, and told, by its case.
target_compile_definitions(tenon_test_main PUBLIC DOCTEST_CONFIG_SUPER_FAST_ASSERTS)

# How test programs are compiled: quickly, because what is tested keeps its own.
set(TENON_TEST_COMPILE_OPTIONS -O0)

# Headers precompiled once, as programs compile them, for every test program (TENON_UNITY).
if(TENON_UNITY)
  add_library(tenon_test_precompiled OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp")
  set_target_properties(tenon_test_precompiled PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_link_libraries(tenon_test_precompiled PRIVATE doctest::doctest tenon_warnings)
  target_compile_definitions(tenon_test_precompiled PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_compile_options(tenon_test_precompiled PRIVATE ${TENON_TEST_COMPILE_OPTIONS} -fPIE)
  target_precompile_headers(tenon_test_precompiled PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/precompiled.hpp")
endif()

# The deadline of an entry; TSan and an emulator make everything slower.
function(_tenon_timeout out timeout)
  if(NOT timeout)
    set(timeout ${TENON_TEST_TIMEOUT})
  endif()
  if(TENON_SANITIZE STREQUAL "thread" OR CMAKE_CROSSCOMPILING)
    math(EXPR timeout "${timeout} * 4")
  endif()
  set(${out} ${timeout} PARENT_SCOPE)
endfunction()

# One ctest entry "PREFIX/CASE" for each case of a program. Their names are known only after the build, so ctest sets their
# properties when it reads them.
function(_tenon_discover program prefix labels timeout environment)
  string(MAKE_C_IDENTIFIER "${prefix}_TESTS" list)
  doctest_discover_tests(${program} TEST_PREFIX "${prefix}/" TEST_LIST ${list} EXTRA_ARGS ${ARGN})
  set(properties "${CMAKE_CURRENT_BINARY_DIR}/${list}_properties.cmake")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/test_properties.cmake.in" "${properties}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${properties}")
endfunction()

function(tenon_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;LABELS;LIBRARIES;DEPENDS;ENVIRONMENT;DEVICES")
  if(NOT arg_NAME OR NOT arg_SOURCES OR NOT arg_LABELS)
    message(FATAL_ERROR "tenon_add_test(${arg_NAME}): NAME, SOURCES and LABELS are needed")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_test(${arg_NAME}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/bin")
  target_link_libraries(${arg_NAME} PRIVATE tenon_test_main ${arg_LIBRARIES} tenon_warnings)
  target_compile_options(${arg_NAME} PRIVATE ${TENON_TEST_COMPILE_OPTIONS})
  if(TENON_UNITY)
    target_precompile_headers(${arg_NAME} REUSE_FROM tenon_test_precompiled)
  endif()
  if(arg_DEPENDS)
    add_dependencies(${arg_NAME} ${arg_DEPENDS})
  endif()
  if(tsan_full IN_LIST arg_LABELS)
    add_dependencies(tenon_tsan_full ${arg_NAME})
  elseif(arg_LABELS MATCHES "(^|;)(core|cpu|stream|comm|sim)(;|$)")
    add_dependencies(tenon_tsan_tests ${arg_NAME})
  endif()
  _tenon_timeout(timeout "${arg_TIMEOUT}")
  set(environment ${TENON_TEST_ENVIRONMENT} ${arg_ENVIRONMENT})
  if(NOT DEFINED arg_DEVICES)
    _tenon_discover(${arg_NAME} ${arg_NAME} "${arg_LABELS}" ${timeout} "${environment}")
  endif()
  foreach(device IN LISTS arg_DEVICES)
    string(REGEX REPLACE "/.*" "" labels "${device}")
    if(NOT device MATCHES "^(cpu|sim/plain)$")
      list(APPEND labels tsan_full)
    endif()
    set(driver "")
    if(device STREQUAL cuda)
      set(driver "LD_LIBRARY_PATH=${TENON_FAKECUDA_DIR}")
    endif()
    _tenon_discover(${arg_NAME} ${arg_NAME}/${device} "${arg_LABELS};${labels}" ${timeout} "${environment};${driver}"
                    --device=${device})
  endforeach()
endfunction()

function(tenon_add_script_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
  if(NOT arg_NAME OR NOT arg_COMMAND OR NOT arg_LABELS)
    message(FATAL_ERROR "tenon_add_script_test(${arg_NAME}): NAME, COMMAND and LABELS are needed")
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
  _tenon_timeout(timeout "${arg_TIMEOUT}")
  set_tests_properties(${arg_NAME} PROPERTIES
    TIMEOUT ${timeout} LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77
    ENVIRONMENT "${TENON_TEST_ENVIRONMENT};${arg_ENVIRONMENT}")
endfunction()
