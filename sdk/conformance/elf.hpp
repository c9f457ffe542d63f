// SPDX-License-Identifier: Apache-2.0
// elf.hpp: what a shared library exports, and where it looks for others, read from its file without opening it.
#pragma once

#include <tenon/result.hpp>

#include <string>
#include <vector>

namespace tenon::conform {

// The names of all symbols that others can bind to: defined, global or weak, default visibility. TN_NOT_FOUND,
// TN_INVALID for what is no 64-bit little-endian ELF library. [any-thread; may block; may fail]
Result<std::vector<std::string>> exported_symbols(const std::string& file);
// The places of DT_RPATH and DT_RUNPATH, as they are written: "$ORIGIN/../lib", "/usr/lib", "" for the working directory.
// The same errors. [any-thread; may block; may fail]
Result<std::vector<std::string>> search_paths(const std::string& file);

}  // namespace tenon::conform
