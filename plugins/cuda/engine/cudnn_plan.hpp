// SPDX-License-Identifier: Apache-2.0
// cudnn_plan.hpp: what cuDNN's heuristics propose for a graph, the plans made of that, and their runs.
//
// The device is a description, so all of this works without one; a plan alone is run on a device.
// Invariant: sums are in f32, of products that are exact: engines that round on the way, add up in an order of chance, or
// transform their operands are not taken. TF32 only where it is allowed.
#pragma once

#include "cudnn.hpp"

#include <chrono>

namespace tenon::cuda {

// A device from what the library says of one in JSON. [any-thread; may block; may fail]
Result<Descriptor> device_from(const Cudnn& library, const std::string& json);
// The device of a handle. [any-thread; may block; may fail]
Result<Descriptor> device_of(const Cudnn& library, cudnnHandle_t handle);

// An engine's number is never negative.
inline constexpr int64_t no_engine = -1;

// What is asked of a plan.
struct PlanWish {
  std::string told{};  // the problem, for messages
  bool full = false;   // computed in f32 from f32
  bool tf32 = false;
  int64_t wrong_engine = no_engine;  // of this number none is taken: it is known to compute something else
  uint64_t workspace_limit = UINT64_MAX;
  std::chrono::steady_clock::time_point until{};  // a second plan is begun before, a first one always
};

// The plans that take no more workspace, the likeliest to be fast first; a single one where no time is left for others.
// TN_UNSUPPORTED names the problem and why the last proposal was not taken. [owner's thread; may block; may fail]
Result<std::vector<Descriptor>> find_plans(const Descriptor& graph, const Descriptor& device,
                                           const PlanWish& wish);

// A plan as it is saved, and from it; the device is the one it was made for. [any-thread; may block; may fail]
Result<std::string> plan_text(const Descriptor& plan);
Result<Descriptor> plan_from(const Descriptor& device, const std::string& text);
Result<uint64_t> plan_workspace(const Descriptor& plan);

// Where the tensors with these numbers lie: on the device, or on the host for a constant.
struct PlanPlaces {
  std::span<const int64_t> numbers{};
  std::span<void* const> places{};
};

// The handle's stream is the one to run on. [one thread at a time for a handle; does not block; may fail]
Status run_plan(cudnnHandle_t handle, const Descriptor& plan, const PlanPlaces& places, void* workspace);

}  // namespace tenon::cuda
