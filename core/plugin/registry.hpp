// SPDX-License-Identifier: Apache-2.0
// registry.hpp: finds, judges and loads plugins.
//
// Invariant: every library considered ends as one Candidate, loaded or skipped with the reason in words; one bad plugin
// harms nothing else. A library that was loaded stays loaded.
#pragma once

#include "plugin/search.hpp"
#include "plugin/tables.hpp"

#include <tenon/runtime.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tenon::plugin {

// One plugin inside this process.
struct Loaded {
  std::string name;
  std::unique_ptr<Tables> tables;
  size_t candidate = 0;  // index into Registry::candidates
};

struct Registry {
  std::vector<Candidate> candidates;
  std::vector<Runtime::Folder> folders;
  std::vector<std::unique_ptr<Loaded>> loaded;  // in search order; names are unique
};

// The first plugin whose communicators can carry collectives for devices that have none: it has host memory and
// communicators. Null: none is loaded. [any-thread; does not block; cannot fail]
const Loaded* carrier_of(const Registry& registry) noexcept;

// Whether the loader's own options ("probe.…") are well formed. TN_INVALID naming key, value and form.
// [any-thread; may block; may fail]
Status check_options(const RuntimeOptions& options);

// Searches, probes and loads as `options` say; `host` is lent to every plugin and must outlive the process's use of them.
// Never fails for a bad plugin; options that check_options refuses are ignored. [any-thread; may block; cannot fail]
Registry load_all(const RuntimeOptions& options, const tn_host& host);
// The same with the environment and the install folder given.
Registry load_all(const RuntimeOptions& options, const tn_host& host, const Surroundings& surroundings);

}  // namespace tenon::plugin
