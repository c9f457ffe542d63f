// SPDX-License-Identifier: Apache-2.0
// library.hpp: opens a plugin the way a host does, in a few lines of its own, so that a verdict is about the plugin and
// never about the core's loader.
//
// Invariant: tables are copied to this kit's size and zeroed beyond the plugin's, so a missing slot reads as null.
#pragma once

#include <tenon/abi.h>
#include <tenon/result.hpp>

#include <map>
#include <string>

namespace tenon::conform {

// The host the kit plays: it keeps the log, answers options, offers no parallel_for and no trace.
struct Host {
  tn_host table{};
  std::map<std::string, std::string> options{};  // "threads" → "2"
  std::string log{};                             // every line the plugin logged

  Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
};

// A library in this process.
struct Library {
  void* handle = nullptr;
  tn_plugin_entry_fn entry = nullptr;
};

// A descriptor and its tables, completed with zeros to the sizes this kit knows.
struct Tables {
  const tn_plugin* plugin = nullptr;  // as the entry returned it: what goes back into calls
  tn_plugin copy{};
  tn_device_api device{};
  tn_stream_api stream{};
  tn_kernel_api kernel{};
  tn_comm_api comm{};
};

// Opens the file with RTLD_NOW | RTLD_LOCAL and finds the entry. TN_NOT_FOUND with the linker's words.
// [any-thread; may block; may fail]
Result<Library> open_library(const std::string& path);
// Asks the entry for a descriptor and copies its tables. The entry's own error, or TN_INVALID naming what the descriptor
// lacks. [one thread at a time; does not block; may fail]
Result<Tables> enter(tn_plugin_entry_fn entry, const tn_host& host);
// Names the first required function that `tables` lacks, or "". [any-thread; does not block; cannot fail]
std::string missing_function(const Tables& tables);

}  // namespace tenon::conform
