// SPDX-License-Identifier: Apache-2.0
// layer.hpp: a layer stands between the host and a plugin and speaks the ABI on both sides.
//
// Invariant: handles pass through unchanged, so extensions and other layers see the plugin's own; a layer keeps what it
// knows of a handle in a table of its own. A layer that is off does not exist: nothing is called, nothing is paid.
#pragma once

#include <tenon/abi.h>
#include <tenon/result.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::layers {

class Layer {
 public:
  virtual ~Layer() = default;
  // A descriptor with complete tables that call `below`'s; it lives as long as the layer. `below` has complete tables and
  // outlives the layer. Called once per plugin. [one thread; does not block; cannot fail]
  virtual const tn_plugin* wrap(const tn_plugin* below) = 0;
  // What it found so far, one finding per string, empty when all is well. [any-thread; does not block; cannot fail]
  virtual std::vector<std::string> report() const { return {}; }
  // The host is done: findings that need the end are made now (what still lives is a leak), files are completed. Calls
  // may still pass. The destructor does it when nobody did. [one thread; may block; may fail]
  virtual Status finish() { return {}; }
};

// Where a layer says what it finds at once: a TN_LOG_ level and a text. Called from any thread, also at the same time.
using Log = std::function<void(int32_t level, std::string_view text)>;

// Makes the layer that `spec` names (docs/integrating.md):
//   "validate"                     "validate=report" lets wrong arguments pass after telling them
//   "trace=FILE"                   ";events=N" per thread, ";device" also asks for device times
//   "record=FILE"
//   "fault=FUNCTION:N:CODE[:MS]"   more with ";"; N from 1, or "*"; CODE "no_memory" …, or "delay=MS"
// TN_NOT_FOUND for an unknown layer (with the nearest name), TN_INVALID for a wrong argument.
// [any-thread; may block; may fail]
Result<std::unique_ptr<Layer>> make_layer(std::string_view spec, Log log = {});

// Cuts "validate,trace=a.json" (the form of TENON_LAYERS) into specs. [any-thread; does not block; cannot fail]
std::vector<std::string> split_specs(std::string_view text);

}  // namespace tenon::layers
