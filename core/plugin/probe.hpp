// SPDX-License-Identifier: Apache-2.0
// probe.hpp: tries a library in a child process before it enters this one.
//
// A library runs code as soon as it is opened. The child opens it, calls its entry, reads its tables and counts its
// devices; a crash, a hang, a call of exit and noise on standard output are told apart. Verdicts are remembered by the
// library's digest, the host's ABI range and version, while the libraries that came with it are what they were.
// Invariant: with Probe::child no library enters this process that did not pass in a child. With Probe::off that
// protection is gone: a plugin that crashes on load takes this process with it.
#pragma once

#include "base/environment.hpp"
#include "plugin/versions.hpp"

#include <tenon/runtime.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::plugin {

struct ProbeSettings {
  Probe mode = Probe::child;
  std::chrono::milliseconds timeout{5000};  // option "probe.timeout_ms"
  std::string helper{};                     // option "probe.helper", default the tenon-probe beside libtenon
  std::string cache{};  // option "probe.cache", default $XDG_CACHE_HOME/tenon/probe; empty: none
};

// Reads the "probe.…" options. TN_INVALID naming key, value and form. [any-thread; may block; may fail]
Result<ProbeSettings> probe_settings(const RuntimeOptions& options, const base::Environment& environment);

// What is to be tried.
struct Subject {
  std::string path;    // real path
  std::string digest;  // in hex
  std::string name;    // that it must have; empty: any
  AbiRange range;      // what the host offers
};

struct Verdict {
  std::string how{};  // "child", "remembered", "off"
  Status status{};    // why it must not be loaded
  std::vector<std::string> warnings{};
};

// [any-thread; blocks up to the timeout; cannot fail]
Verdict probe(const Subject& subject, const ProbeSettings& settings);

// What the child calls each Stage.
inline constexpr std::string_view stage_letters = "oetd";
// The child's side: tries the library, reports over base::answer_fd and ends the process. [child process]
[[noreturn]] void run_probe_child(const std::string& path, const std::string& name, const AbiRange& range);

}  // namespace tenon::plugin
