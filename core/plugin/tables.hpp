// SPDX-License-Identifier: Apache-2.0
// tables.hpp: a plugin's tables, completed to this host's size.
//
// Invariant: every function pointer the host may call is set. What a plugin lacks (an older table, an optional slot) is
// replaced by a function with the ABI's stated default, so nobody above tests for null or for sizes. Where the default
// is the host's own work (strided copies, host calls, promises) the function says TN_UNSUPPORTED and core/runtime does it.
#pragma once

#include <tenon/abi.h>
#include <tenon/result.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tenon::plugin {

// A descriptor with tables of this host's size behind it. Not movable: the descriptor points into itself.
struct Tables {
  tn_plugin descriptor{};  // its context is this Tables; the plugin is always handed its own descriptor
  tn_device_api device{};
  tn_stream_api stream{};
  tn_kernel_api kernel{};
  tn_comm_api comm{};
  bool has_kernel = false;  // descriptor.kernel was given
  bool has_comm = false;
  std::vector<std::string> emulated;  // what the host does in the plugin's stead, in words

  const tn_plugin* given = nullptr;  // the plugin's own descriptor
  tn_plugin known{};                 // what this host can read of it; the rest is zero

  Tables() = default;
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
};

// Completes `given`. TN_INVALID naming the table and the function when a required one is missing, or a size is absurd.
// [any-thread; does not block; may fail]
Result<std::unique_ptr<Tables>> complete(const tn_plugin& given);

// "ADDRESSABLE", …: the names of the bits set in `features`; unknown bits are left out.
// [any-thread; does not block; cannot fail]
std::vector<std::string> feature_names(uint64_t features);

}  // namespace tenon::plugin
