// SPDX-License-Identifier: Apache-2.0
// search.hpp: where plugins are looked for, and what is found there.
//
// Order: the options' files, the options' folders, TENON_PLUGIN_PATH, the folder beside libtenon.
// Invariant: the working directory never matters: an empty or relative path is refused with that reason.
#pragma once

#include "base/environment.hpp"
#include "plugin/manifest.hpp"

#include <tenon/runtime.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tenon::plugin {

// One library that was found.
struct Find {
  std::string path{};                  // of the library; of the manifest when that names none
  std::optional<Manifest> manifest{};  // read and well formed
  std::string refusal{};               // why nothing more is to be done with it
  std::vector<std::string> warnings{};
};

struct Findings {
  std::vector<Find> files;  // in search order
  std::vector<Runtime::Folder> folders;
};

// What the search depends on besides the options.
struct Surroundings {
  base::Environment environment;
  std::string install_folder;  // "" when unknown
  // This process's. [any-thread; may block; cannot fail]
  static Surroundings of_process();
};

// Opens nothing but manifests. [any-thread; may block; cannot fail]
Findings search(const RuntimeOptions& options, const Surroundings& surroundings);

}  // namespace tenon::plugin
