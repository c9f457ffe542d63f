# SPDX-License-Identifier: Apache-2.0
# Sources of one folder compiled several at a time (TENON_UNITY): a build from nothing is quicker, because
# most of it goes into headers and templates that every source brings again.
# Invariant: files are joined within a folder only, so a name of an anonymous namespace need be unique no further; one
# that must have its own flags, or its own names, stays alone (tenon_compile_alone).
set(TENON_UNITY_FILES 8 CACHE STRING "How many files TENON_UNITY compiles at a time")

# Sources with names of their own, or with flags of their own.
function(tenon_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Joins the sources of a target.
function(tenon_unite target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cpp$")
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}" NORMALIZE)
    cmake_path(GET source PARENT_PATH room)
    string(MAKE_C_IDENTIFIER "${room}" room)
    list(LENGTH ${room} before)
    list(APPEND ${room} "${source}")
    math(EXPR group "${before} / ${TENON_UNITY_FILES}")
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP "${room}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Joins the sources of every target there is.
function(tenon_unite_all)
  tenon_targets_below("${PROJECT_SOURCE_DIR}" "" targets)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "LIBRARY|EXECUTABLE" AND NOT type STREQUAL INTERFACE_LIBRARY)
      tenon_unite(${target})
    endif()
  endforeach()
endfunction()
