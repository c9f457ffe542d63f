// SPDX-License-Identifier: Apache-2.0
// places.hpp: where the tool finds what was installed with it.
//
// Invariant: every place is computed from the executable's own, so a moved prefix still works. A build tree has the same
// layout, so nothing here knows which of the two it is in.
#pragma once

#include <tenon/result.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

// This program's file. [any-thread; may block; cannot fail]
std::string executable();
// This program as the user called it, "tenon" or a path: what a line that is to be pasted begins with.
// [any-thread; does not block; cannot fail]
std::string invoked_as();
// The folder of the plugin template. TN_NOT_FOUND naming where it was looked for. [any-thread; may block; may fail]
Result<std::string> template_folder();
// The folders where plugins are looked for by name: `first`, TENON_PLUGIN_PATH, the install's own.
// [any-thread; may block; cannot fail]
std::vector<std::string> plugin_folders(const std::vector<std::string>& first);
// The names of the plugins in `folders`, sorted. [any-thread; may block; cannot fail]
std::vector<std::string> plugin_names(const std::vector<std::string>& folders);
// The library that `wanted` means: a file, or the name of a plugin in `folders`. TN_NOT_FOUND with what was tried.
// [any-thread; may block; may fail]
Result<std::string> plugin_file(const std::string& wanted, const std::vector<std::string>& folders);

}  // namespace tenon::tool
