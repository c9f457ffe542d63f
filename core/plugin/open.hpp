// SPDX-License-Identifier: Apache-2.0
// open.hpp: takes one library file into this process and agrees with it on a version.
//
// Invariant: each step's failure is one sentence with its remedy; a library that was opened stays open, also when refused.
#pragma once

#include "plugin/tables.hpp"
#include "plugin/versions.hpp"

#include <functional>
#include <string>

namespace tenon::plugin {

// How far the opening of a library came.
enum class Stage { open, entry, tables, devices };
using Progress = std::function<void(Stage)>;

// Opens `path`, calls its entry with `host`, checks version and name (`name` empty: any) and completes its tables.
// `progress` is told each step before it begins. TN_INVALID, TN_VERSION, or what the plugin itself says.
// [one thread at a time; may block; may fail]
Result<std::unique_ptr<Tables>> open_plugin(const std::string& path, const std::string& name,
                                            const tn_host& host, const Progress& progress = {});

}  // namespace tenon::plugin
