# SPDX-License-Identifier: Apache-2.0
# tenon_add_plugin(): everything a plugin's build needs beyond its sources.
# Invariant: the library exports tn_plugin_entry and nothing else, and its manifest stands beside it.
#
#   tenon_add_plugin(NAME cpu SOURCES plugin.cpp device.cpp
#                    [LIBRARIES dnnl::dnnl] [VERSION 1.2.0] [VENDOR "Acme"] [LICENSE Apache-2.0]
#                    [REQUIRES_ISA avx2 fma])
#
# makes the target tenon_plugin_cpu, the files tenon-cpu.so and tenon-cpu.toml, and their install rule
# (into <libdir>/tenon/plugins). REQUIRES_ISA names what the whole library needs, so that a host reads it
# from the manifest and never opens a library that would fault. Works inside the Tenon tree and after
# find_package(Tenon). Set TENON_PLUGIN_OUTPUT_DIR to choose where the build puts both files (default: the
# current binary directory), and TENON_PLUGIN_INSTALL to OFF to have no install rule.
# Reads the ABI numbers this plugin is compiled against from the very header it includes.
function(_tenon_read_abi out_major out_minor)
  # In the source tree the headers are this file's neighbours; an installed TenonConfig.cmake says where.
  set(header "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include/tenon/base.h")
  if(NOT EXISTS "${header}")
    set(header "${TENON_SDK_INCLUDE_DIR}/tenon/base.h")
  endif()
  if(NOT EXISTS "${header}")
    message(FATAL_ERROR "tenon_add_plugin: tenon/base.h was not found; call find_package(Tenon CONFIG) in this "
                        "directory or above it")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  foreach(part MAJOR MINOR)
    file(STRINGS "${header}" line REGEX "^#[ \t]*define[ \t]+TN_ABI_${part}[ \t]")
    if(NOT line MATCHES "TN_ABI_${part}[ \t]+\\(?([0-9]+)")
      message(FATAL_ERROR "tenon_add_plugin: no number for TN_ABI_${part} in ${header}")
    endif()
    set(TN_${part} "${CMAKE_MATCH_1}")
  endforeach()
  set(${out_major} "${TN_MAJOR}" PARENT_SCOPE)
  set(${out_minor} "${TN_MINOR}" PARENT_SCOPE)
endfunction()

# Writes the manifest a host reads before it opens the library.
function(_tenon_write_manifest file name version vendor license isa)
  _tenon_read_abi(TENON_ABI_MAJOR TENON_ABI_MINOR)
  set(TENON_PLUGIN_NAME "${name}")
  set(TENON_PLUGIN_VERSION "${version}")
  set(TENON_PLUGIN_VENDOR "${vendor}")
  set(TENON_PLUGIN_LICENSE "${license}")
  string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" TENON_PLUGIN_ARCH)
  string(TOLOWER "${CMAKE_SYSTEM_NAME}" TENON_PLUGIN_OS)
  list(TRANSFORM isa REPLACE "(.+)" "\"\\1\"")
  list(JOIN isa ", " TENON_PLUGIN_ISA)
  configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/manifest.toml.in" "${file}" @ONLY)
endfunction()

function(tenon_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;VERSION;VENDOR;LICENSE" "SOURCES;LIBRARIES;REQUIRES_ISA")
  if(NOT arg_NAME MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "tenon_add_plugin: NAME '${arg_NAME}' must be lower-case letters, digits and _")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "tenon_add_plugin(${arg_NAME}): SOURCES is empty")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_plugin(${arg_NAME}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_VERSION)
    set(arg_VERSION "${PROJECT_VERSION}")
  endif()
  if(NOT arg_VERSION)
    set(arg_VERSION "0.0.0")
  endif()
  if(NOT arg_VENDOR)
    set(arg_VENDOR "unknown")
  endif()
  if(NOT arg_LICENSE)
    set(arg_LICENSE "unknown")
  endif()

  set(target "tenon_plugin_${arg_NAME}")
  set(output "${CMAKE_CURRENT_BINARY_DIR}")
  if(TENON_PLUGIN_OUTPUT_DIR)
    set(output "${TENON_PLUGIN_OUTPUT_DIR}")
  endif()
  set(exports "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map")
  set(manifest "${output}/tenon-${arg_NAME}.toml")

  add_library(${target} MODULE ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME "tenon-${arg_NAME}" LIBRARY_OUTPUT_DIRECTORY "${output}"
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    # As it will be installed: what a build tree has it edited into ends with an empty entry, the working directory.
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON
    POSITION_INDEPENDENT_CODE ON LINK_DEPENDS "${exports}" TENON_MANIFEST "${manifest}")
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE Tenon::sdk ${arg_LIBRARIES})
  target_link_options(${target} PRIVATE "LINKER:--version-script=${exports}")
  if(TARGET tenon_warnings)
    target_link_libraries(${target} PRIVATE tenon_warnings)
  endif()
  _tenon_write_manifest("${manifest}" "${arg_NAME}" "${arg_VERSION}" "${arg_VENDOR}" "${arg_LICENSE}"
                        "${arg_REQUIRES_ISA}")
  # What the vendor declares to the conformance kit travels with the library; the name keeps it apart from manifests.
  set(declared "${output}/${arg_NAME}.capabilities.toml")
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/capabilities.toml")
    configure_file("${CMAKE_CURRENT_SOURCE_DIR}/capabilities.toml" "${declared}" COPYONLY)
  endif()

  if(DEFINED TENON_PLUGIN_INSTALL AND NOT TENON_PLUGIN_INSTALL)
    return()
  endif()
  include(GNUInstallDirs)
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenon/plugins" COMPONENT runtime)
  install(FILES "${manifest}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenon/plugins" COMPONENT runtime)
  install(FILES "${declared}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenon/plugins" COMPONENT runtime OPTIONAL)
endfunction()
