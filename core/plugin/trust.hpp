// SPDX-License-Identifier: Apache-2.0
// trust.hpp: whether a file that code is taken from could have been changed by somebody else.
//
// Invariant: file and folder are both judged, and the folder behind every link too.
#pragma once

#include <tenon/result.hpp>

#include <string>

namespace tenon::plugin {

// TN_INVALID when everybody may write `path`, or its group may and the process is elevated.
// [any-thread; may block; may fail]
Status check_writers(const std::string& path, const char* what, bool elevated);
// check_writers for the file, the folder it was found in and the folder it really stands in; TN_NOT_FOUND.
// [any-thread; may block; may fail]
Status check_trusted_file(const std::string& path, const std::string& real_path, bool elevated);

}  // namespace tenon::plugin
