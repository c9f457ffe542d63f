// SPDX-License-Identifier: Apache-2.0
// update.hpp: optimizers and loss scaling as launches over tables.
//
// A launch has a job for each tensor that is updated, scanned or copied. Jobs of one kind share a piece of code; what
// differs between them (sizes, places, attributes, scalars) is in tables. So hundreds of tensors are one launch of a few
// pieces of code, and its blocks walk the chunks of all of them.
// Invariant: jobs of one launch are independent of each other, and each chunk is computed by one block.
#pragma once

#include "program.hpp"
#include "source.hpp"

#include <tenon/author/op_update.hpp>

#include <array>

namespace tenon::cuda {

using author::FragmentView;

// Where a tensor lies: bindings by their number, the workspace behind them in steps of place_bytes, constants last.
constexpr uint32_t no_place = UINT32_MAX, first_constant_place = 0x80000000u;
constexpr uint64_t place_bytes = 256;

struct UpdateOperand {
  std::string_view name;  // "weight", "gradient", …
  uint32_t dtype = TN_DTYPE_f32;
  bool read_only = false;  // nothing of the launch writes it
  bool operator==(const UpdateOperand&) const = default;
};

// What jobs of one piece of code have in common.
struct UpdateKind {
  uint32_t op = TN_OP_NONE;  // TN_OP_identity: a copy
  bool nesterov = false;
  bool divides = false;  // its gradient is divided by a loss scale on the way in
  bool flat = true;      // all operands are dense, in the same order
  std::vector<UpdateOperand> reads{}, writes{};
  bool operator==(const UpdateKind&) const = default;
};

// Attributes and scalars; update.cuh says what they are.
struct UpdateSetting {
  std::array<double, 4> numbers{};
  uint32_t rate = no_place, step = no_place, found_inf = no_place, inverse_scale = no_place, scale = no_place;
  bool decoupled = false;
  bool operator==(const UpdateSetting&) const = default;
};

struct UpdateJob {
  size_t kind = 0, setting = 0;
  uint64_t count = 0;              // elements, at least 1
  uint64_t shape = 0;              // where its row begins among the shapes, when it is not flat
  std::vector<uint32_t> places{};  // of reads, then of writes; of a scan, last, that of found_inf
};

struct UpdateLaunch {
  uint32_t dtype = TN_DTYPE_f32;  // computed in: f32 or f64
  std::vector<UpdateKind> kinds{};
  std::vector<UpdateSetting> settings{};
  std::vector<uint64_t> shapes{};
  std::vector<UpdateJob> jobs{};
};

// What a fragment comes to.
struct UpdateWork {
  std::vector<uint32_t> found_infs{};  // places that are 0 before anything runs
  std::vector<UpdateLaunch> launches{};
  std::vector<uint32_t> constants{};  // tensors, in the order of their places
  uint64_t workspace_bytes = 0;
};

// A fragment that keeps every rule of ops.def and is made of updates alone. [any-thread; does not block; may throw bad_alloc]
UpdateWork plan_updates(const FragmentView& fragment);

// The elements that a thread takes at once: `unroll` times `lanes` neighbours.
struct UpdateTile {
  uint32_t lanes = 1, unroll = 1;
  bool tail = false;  // some tensor of the kind does not end with a whole chunk of lanes
};
// Of a wide entry: in words of 16 bytes. Some 128 bytes are on their way for a thread.
UpdateTile tile_of(const UpdateKind& kind, bool wide);
// The piece of code of a kind, inside the loop over chunks: `job`, `f`, `chunk`, `begin` and `at` are there.
void write_update(Source& out, const UpdateKind& kind, uint32_t dtype, const UpdateTile& tile,
                  const std::string& step);

}  // namespace tenon::cuda
