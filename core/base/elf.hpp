// SPDX-License-Identifier: Apache-2.0
// elf.hpp: a look at a library file without loading it.
//
// Invariant: what passes can be mapped: a file cut short kills the process that maps it (SIGBUS), so it is found here.
#pragma once

#include <tenon/result.hpp>

#include <string>

namespace tenon::base {

// Whether `path` is a whole ELF shared library for this machine. TN_INVALID: text, an object file, another word size,
// another architecture, truncated; each with its figures. [any-thread; may block; may fail]
Status check_library_file(const std::string& path);

}  // namespace tenon::base
