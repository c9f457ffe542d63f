// SPDX-License-Identifier: Apache-2.0
// conv_graph.hpp: a convolution as a graph of cuDNN's, what its heuristics propose for it, and the plans made of that.
//
// The device is a description, so all of this works without one; a plan alone is run on a device.
// Invariant: sums are in f32, of products that are exact: engines that round on the way, add up in an order of chance, or
// transform their operands are not taken. TF32 only where it is allowed.
#pragma once

#include "cudnn.hpp"

#include "../kernels/convolution.hpp"

namespace tenon::cuda {

class ConvGraph {
 public:
  // A device from what the library says of one in JSON. [any-thread; may block; may fail]
  static Result<Descriptor> device_from(const Cudnn& library, const std::string& json);
  // The device of a handle. [any-thread; may block; may fail]
  static Result<Descriptor> device_of(const Cudnn& library, cudnnHandle_t handle);

  // `alignment` is what every address will be a multiple of. [any-thread; may block; may fail]
  static Result<ConvGraph> make(const Cudnn& library, const Convolution& convolution, int64_t alignment);

  // The plan that is likeliest the fastest, of those that take no more workspace. TN_UNSUPPORTED names the convolution and
  // why the last proposal was not taken. [owner's thread; may block; may fail]
  Result<Descriptor> plan(const Descriptor& device, uint64_t workspace_limit, bool tf32) const;

 private:
  ConvGraph() = default;
  Result<Descriptor> first_fit(const Descriptor& device, cudnnBackendHeurMode_t mode, uint64_t limit,
                               bool tf32, std::string& reason) const;

  const Cudnn* library_ = nullptr;
  std::string told_{};
  bool full_ = false;  // computed in f32 from f32
  Descriptor graph_{};
};

// A plan as it is saved, and from it; the device is the one it was made for. [any-thread; may block; may fail]
Result<std::string> plan_text(const Descriptor& plan);
Result<Descriptor> plan_from(const Descriptor& device, const std::string& text);
Result<uint64_t> plan_workspace(const Descriptor& plan);

// The handle's stream is the one to run on. `places` are those of the fragment's bindings. [one thread at a time for a
// handle; does not block; may fail]
Status run_plan(cudnnHandle_t handle, const Descriptor& plan, std::span<void* const> places, void* workspace);

}  // namespace tenon::cuda
