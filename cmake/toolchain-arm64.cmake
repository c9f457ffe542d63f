# SPDX-License-Identifier: Apache-2.0
# Compiles for Linux on arm64 with Debian's cross compiler, and runs what was built under qemu's user emulation.
# Invariant: a library of the build machine is never linked; its headers serve, because those that this tree asks for by name
# (doctest, toml++, CLI11, nlohmann-json) are the same for every machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

find_program(TENON_QEMU_ARM64 NAMES qemu-aarch64-static qemu-aarch64)
if(NOT TENON_QEMU_ARM64)
  message(FATAL_ERROR "qemu-aarch64 was not found: install qemu-user-static")
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR "${TENON_QEMU_ARM64};-L;/usr/aarch64-linux-gnu")
