# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: components runtime (libtenon, plugins, tool), sdk (headers, package
# files, plugin helper, template, conformance kit) and samples (sources).
# Invariant: no installed file holds an absolute path, so the prefix may be moved.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Tenon")

# Installs a folder of the source tree when it is there.
function(tenon_install_folder folder destination component)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}/" DESTINATION "${destination}"
            COMPONENT ${component} ${ARGN})
  endif()
endfunction()

install(TARGETS tenon tenon_sdk EXPORT TenonTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT sdk)
install(EXPORT TenonTargets NAMESPACE Tenon:: DESTINATION "${package_dir}" COMPONENT sdk)
if(TARGET tenon_cli)
  set_target_properties(tenon_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS tenon_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
endif()

tenon_install_folder(sdk/include "${CMAKE_INSTALL_INCLUDEDIR}" sdk)
tenon_install_folder(core/include "${CMAKE_INSTALL_INCLUDEDIR}" sdk)
tenon_install_folder(sdk/template "${CMAKE_INSTALL_DATADIR}/tenon/template" sdk USE_SOURCE_PERMISSIONS)
tenon_install_folder(sdk/conformance "${CMAKE_INSTALL_DATADIR}/tenon/conformance" sdk)
tenon_install_folder(samples "${CMAKE_INSTALL_DATADIR}/tenon/samples" samples)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT sdk
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT sdk)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT sdk)

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/TenonConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/TenonConfig.cmake"
  INSTALL_DESTINATION "${package_dir}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_DATADIR
  NO_SET_AND_CHECK_MACRO)
# 0.x: a minor version may change the C++ API, so only the same minor version satisfies a request.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TenonConfig.cmake" "${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/sdk/cmake/TenonPlugin.cmake"
              "${PROJECT_SOURCE_DIR}/sdk/cmake/plugin.map"
              "${PROJECT_SOURCE_DIR}/sdk/cmake/manifest.toml.in"
        DESTINATION "${package_dir}" COMPONENT sdk)

# ${pcfiledir} is where pkg-config found the file; the way up from there to the prefix is fixed by the layout.
cmake_path(SET pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${pc_dir}"
           OUTPUT_VARIABLE TENON_PC_PREFIX)
configure_file("${CMAKE_CURRENT_LIST_DIR}/tenon.pc.in" "${PROJECT_BINARY_DIR}/tenon.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tenon.pc" DESTINATION "${pc_dir}" COMPONENT sdk)
