// SPDX-License-Identifier: Apache-2.0
// describe.hpp: what a plugin says about itself, read through the ABI and nothing else.
//
// Invariant: describing opens no device unless asked to; what a plugin lacks is told as absent, never guessed.
#pragma once

#include "conformance/context.hpp"

#include <tenon/abi.h>

#include <string>
#include <vector>

namespace tenon::conform {

struct DeviceDescription {
  uint32_t ordinal = 0, kind = 0, compute_units = 0;
  int32_t numa_node = -1;
  std::string name{}, id{}, driver{};
  uint64_t memory_bytes = 0;
  bool opened = false;    // the limits below are known
  std::string trouble{};  // why it could not be described or opened
  tn_device_limits limits{};
};

struct FunctionDescription {
  std::string table{}, name{};
  bool required = false, native = false;
  std::string otherwise{};  // what happens where it is absent
};

struct Description {
  std::string name{}, vendor{}, version{}, abi{};
  uint64_t features = 0;
  std::vector<std::string> feature_names{}, extensions{};
  std::vector<DeviceDescription> devices{};
  std::vector<FunctionDescription> functions{};
};

// Describes the plugin; opens each device for its limits when `open_devices`. [case's thread; may block; may fail]
Result<Description> describe(Context& t, bool open_devices);
// "ADDRESSABLE" …, unknown bits as "bit 17". [any-thread; does not block; cannot fail]
std::vector<std::string> feature_names(uint64_t features);

}  // namespace tenon::conform
