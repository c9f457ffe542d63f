// SPDX-License-Identifier: Apache-2.0
// manifest.hpp: tenon-NAME.toml, what a plugin says of itself before anything of it is opened.
//
// Invariant: a Manifest that was read is well formed; every mistake names file, key, value and remedy. Unknown keys are
// warnings, so that a newer manifest of the same schema is still read.
#pragma once

#include "plugin/versions.hpp"

#include <tenon/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tenon::plugin {

struct Manifest {
  std::string path;     // of the manifest itself
  std::string name;     // "cpu": lower-case letters, digits and _
  std::string version;  // of the plugin
  std::string vendor, license;
  std::string library;  // a bare file name in the manifest's folder
  AbiRange abi;
  std::string arch, os;          // empty: any
  std::vector<std::string> isa;  // all needed
  std::vector<std::string> warnings;
};

// Reads and checks the text of a manifest; `path` is for messages. TN_INVALID.
// [any-thread; does not block; may fail]
Result<Manifest> parse_manifest(const std::string& path, std::string_view text);
// The same from a file. TN_NOT_FOUND, TN_INVALID. [any-thread; may block; may fail]
Result<Manifest> read_manifest(const std::string& path);
// Whether this machine and host suit it. TN_UNSUPPORTED (system, architecture, instruction set), TN_VERSION.
// [any-thread; does not block; may fail]
Status check_suits(const Manifest& manifest, const AbiRange& host_range);

}  // namespace tenon::plugin
