# SPDX-License-Identifier: Apache-2.0
# Every switch of the build in one place, and the layout of the build tree.
# Invariant: the build tree mirrors the install tree (bin, lib, lib/tenon/plugins), so a program finds
# libtenon and its plugins the same way in both.
include(GNUInstallDirs)

option(TENON_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(TENON_BUILD_SAMPLES "Build the samples" ${PROJECT_IS_TOP_LEVEL})
option(TENON_BUILD_BENCH "Build the benchmark programs" ${PROJECT_IS_TOP_LEVEL})
option(TENON_UNITY "Compile the sources of a folder several at a time" OFF)
option(TENON_FUZZ "Build the fuzzers of tests/fuzz; needs clang (preset fuzz)" OFF)
option(TENON_WERROR "Treat warnings as errors" OFF)
set(TENON_SANITIZE none CACHE STRING "Sanitizer: address (with undefined), thread or none")
set_property(CACHE TENON_SANITIZE PROPERTY STRINGS none address thread)
option(TENON_SANITIZE_ALL "Where TENON_SANITIZE is address: the checks that take longest to compile, too" ON)
set(TENON_PLUGINS "all" CACHE STRING "Plugins to build: folder names under plugins/, or all")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(TENON_PLUGIN_OUTPUT_DIR "${PROJECT_BINARY_DIR}/lib/tenon/plugins")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
