# SPDX-License-Identifier: Apache-2.0
# How rooms are found: a folder with a CMakeLists.txt is a room.
# Invariant: a room that is not there yet is skipped, one that is asked for by name and missing is an error.

# Adds a folder of the current source directory when it has a CMakeLists.txt.
function(tenon_add_room folder)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory("${folder}")
  endif()
endfunction()

# Sets `out` to the sub-folders of `folder` that have a CMakeLists.txt, in alphabetical order.
function(tenon_list_rooms folder out)
  file(GLOB lists CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*/CMakeLists.txt")
  set(names "")
  foreach(list IN LISTS lists)
    cmake_path(GET list PARENT_PATH dir)
    cmake_path(GET dir FILENAME name)
    list(APPEND names "${name}")
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# Adds the plugins of TENON_PLUGINS; TENON_PLUGIN_TARGETS lists their targets.
function(tenon_add_plugins)
  tenon_list_rooms(plugins found)
  set(wanted "${TENON_PLUGINS}")
  if(wanted STREQUAL "all")
    set(wanted "${found}")
  endif()
  foreach(name IN LISTS wanted)
    if(NOT name IN_LIST found)
      message(FATAL_ERROR "TENON_PLUGINS names '${name}', but plugins/ has only: ${found}")
    endif()
    add_subdirectory("plugins/${name}")
    list(APPEND targets "tenon_plugin_${name}")
  endforeach()
  set(TENON_PLUGIN_TARGETS "${targets}" PARENT_SCOPE)
endfunction()

# Adds every sample. A sample asks for an installed Tenon; inside the tree that request is answered by the
# targets just defined, so the very same CMakeLists.txt serves both. A sample's plugin is for its reader: it
# is neither installed nor found by default.
function(tenon_add_samples)
  set(TENON_PLUGIN_OUTPUT_DIR "${PROJECT_BINARY_DIR}/samples/plugins")
  set(TENON_PLUGIN_INSTALL OFF)
  file(WRITE "${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/tenon-config.cmake"
       "include(\"${PROJECT_SOURCE_DIR}/sdk/cmake/TenonPlugin.cmake\")\nset(Tenon_VERSION ${PROJECT_VERSION})\n")
  tenon_list_rooms(samples found)
  foreach(name IN LISTS found)
    add_subdirectory("samples/${name}")
  endforeach()
endfunction()

# Sets `out` to the targets of a folder and of the folders below it, but for the folder `except`.
function(tenon_targets_below folder except out)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  list(REMOVE_ITEM folders "${except}")
  foreach(below IN LISTS folders)
    tenon_targets_below("${below}" "${except}" more)
    list(APPEND targets ${more})
  endforeach()
  set(${out} "${targets}" PARENT_SCOPE)
endfunction()
