// SPDX-License-Identifier: Apache-2.0
// cudnn_room.hpp: where each tensor of a plan lies in a launch: in a binding, in the workspace, or on the host.
//
// Invariant: what a launch looks up is fixed when the kernel is made: numbers, constants, and offsets behind the plan's own
// workspace.
#pragma once

#include "cudnn_plan.hpp"
#include "gpu.hpp"
#include "memory.hpp"

#include <tenon/author/fragment_view.hpp>

#include <array>

namespace tenon::cuda {

inline constexpr uint64_t wide_address = 16;

// What a launch gives a graph besides the fragment's bindings: one element from the host, or room.
struct PlanConstant {
  int64_t number = -1;
  std::array<std::byte, 4> value{};
};
struct PlanScratch {
  int64_t number = -1;
  uint64_t bytes = 0;
};

class PlanRoom {
 public:
  // `copied`: bindings may lie anywhere, and are copied to good addresses for a plan that reads no others. TN_UNSUPPORTED for an
  // output with gaps, which such a copy would overwrite. [any-thread; does not block; may fail]
  static Result<PlanRoom> make(const author::FragmentView& fragment, std::vector<PlanConstant> constants,
                               const std::vector<PlanScratch>& scratch, bool copied);

  // Of the workspace, behind the plan's own.
  uint64_t bytes() const noexcept { return bytes_; }
  // Runs `run` with the places of all tensors; `room` is where the bytes begin. The context is current.
  // [stream's thread; does not block; may fail]
  template <class Run>
  Status launch(const Context& context, CUstream stream, std::span<const CUdeviceptr> bindings,
                CUdeviceptr room, Run&& run) const;

  static constexpr size_t most_places = 32;

 private:
  struct Binding {
    uint64_t bytes = 0, copy = 0;  // where its copy begins
    bool is_output = false;
  };

  uint64_t take(uint64_t bytes) noexcept;
  Status copy(const Context& context, CUstream stream, std::span<const CUdeviceptr> bindings,
              CUdeviceptr room, bool outputs) const;

  std::vector<int64_t> numbers_{};  // bindings, scratch, constants
  std::vector<Binding> bindings_{};
  std::vector<uint64_t> scratch_{};  // offsets
  std::vector<PlanConstant> constants_{};
  bool copied_ = false;
  uint64_t bytes_ = 0;
};

template <class Run>
Status PlanRoom::launch(const Context& context, CUstream stream, std::span<const CUdeviceptr> bindings,
                        CUdeviceptr room, Run&& run) const {
  std::array<void*, most_places> places{};
  size_t count = 0;
  for (size_t i = 0; i < bindings.size(); ++i) {
    const CUdeviceptr at = bindings[i];
    const bool moved = copied_ && at % wide_address != 0;
    places[count++] = reinterpret_cast<void*>(moved ? room + bindings_[i].copy : at);
  }
  for (const uint64_t offset : scratch_) places[count++] = reinterpret_cast<void*>(room + offset);
  for (const PlanConstant& one : constants_)
    places[count++] =
        const_cast<std::byte*>(one.value.data());  // the library's pointers are to what may change
  if (copied_) TN_TRY(copy(context, stream, bindings, room, false));
  TN_TRY(run(PlanPlaces{.numbers = numbers_, .places = {places.data(), count}}));
  return copied_ ? copy(context, stream, bindings, room, true) : Status();
}

}  // namespace tenon::cuda
