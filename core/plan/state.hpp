// SPDX-License-Identifier: Apache-2.0
// state.hpp: what stands behind a Plan.
//
// Invariant: launches stand in run order; a slot names either what the caller binds or a place in the block of a run.
#pragma once

#include <tenon/plan.hpp>

#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {

struct Plan::State {
  static constexpr uint32_t in_block = TN_ABSENT;

  // Where a binding of a launch comes from.
  struct Slot {
    uint32_t bound = in_block;  // the number of what the caller binds
    uint64_t place = 0;         // in the block
    uint64_t bytes = 0;

    // Of a slot that is in the block. [any-thread; does not block; cannot fail]
    tn_span in(const tn_span& block) const noexcept {
      tn_span span = block;
      span.offset += place;
      span.bytes = bytes;
      return span;
    }
  };
  struct Launch {
    Kernel kernel{};            // none: its output is where its input is, in another shape
    std::vector<Slot> slots{};  // inputs, then outputs
    Slot workspace{};
    std::string name{};  // in timelines, and what it counts as there
    TraceKind kind = TraceKind::kernel;
    uint64_t bytes = 0;            // that it reads and writes
    std::vector<uint32_t> sums{};  // exchanges whose sums it reads itself, ascending
  };
  // What the caller binds.
  struct Bound {
    std::string name{};
    uint64_t bytes = 0;
    DType dtype{};
    bool is_output = false;
    uint32_t renews = TN_ABSENT;  // an output: the parameter, by its number here, that it may be written over
  };
  // An all_reduce of communicator 0, which is no launch: who runs the plan does it, between the launches before and those from
  // first_late on.
  struct Exchange {
    uint32_t sent = TN_ABSENT, sum = TN_ABSENT;  // values
    uint32_t after = TN_ABSENT;                  // the launch that makes `sent`
    uint32_t bound = TN_ABSENT;                  // the number of `sum` among what the caller binds
    Slot from{};                                 // where `sent` is; in the place of `sum` itself, mostly
  };

  // An all_reduce of another communicator than 0, which later launches need: who runs the plan does it behind launch `after`.
  struct Sum {
    uint32_t sent = TN_ABSENT, sum = TN_ABSENT;  // values, which lie in one place
    uint32_t after = TN_ABSENT;                  // the launch that makes `sent`
    DType dtype = f32;
    Slot at{};
  };

  Graph graph;
  Device device{};
  FusionTarget target{};
  FusionCut cut{};
  std::vector<std::string> recuts{};  // what the device refused to compile, in words
  std::vector<std::string> apart{};   // what was to be written over something else and is not, in words
  size_t views = 0;                   // launches without a kernel
  size_t in_place = 0;                // values that lie over what they are made of
  std::vector<Plan::Renewal> renewals{};
  std::vector<Launch> launches{};
  std::vector<Exchange> exchanges{};
  std::vector<Sum> sums{};  // in the order of their launches
  // The first launch that needs an exchange; the first that needs an input of with_sums. All that there are, where none does.
  uint32_t first_late = 0, first_with_all = 0;
  std::vector<Bound> bound{};
  std::unordered_map<std::string, uint32_t> names{};  // of `bound`, but those of exchanges
  uint64_t block_bytes = 0, bytes_without_reuse = 0;
  size_t most_slots = 0;
};

}  // namespace tenon
