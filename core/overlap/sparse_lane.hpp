// SPDX-License-Identifier: Apache-2.0
// sparse_lane.hpp: gradients of tables, of which each rank has some rows: gathered, not summed.
//
// A rank has room for so many rows in every step, so sizes are known before and nobody waits for another's count.
// Invariant: rows that a rank does not bring have index 0 and zeros as values, so adding them up changes nothing.
#pragma once

#include "overlap/fused_copy.hpp"
#include "overlap/lane.hpp"

#include <tenon/gradient_sync.hpp>

#include <vector>

namespace tenon::overlap {

class SparseLane {
 public:
  SparseLane() = default;
  // Makes room for the rows of all ranks, for each sparse gradient of `plan`. `lane` stays where it is.
  // TN_UNSUPPORTED where the device cannot divide. [one thread; may block; may fail]
  static Result<SparseLane> prepare(Device& device, Lane& lane, const CommPlan& plan, Average how,
                                    const Timeline& timeline);

  // TN_INVALID, naming the parameter, for spans that are no rows of it. [any-thread; does not block; may fail]
  Status check(uint32_t parameter, const tn_span& indices, const tn_span& values) const;
  // After `check`: what this rank brings to the step. [stream's thread; cannot fail]
  void bring(uint32_t parameter, const tn_span& indices, const tn_span& values) noexcept;
  // Launches the gathers, in the order of the list, after what is on `compute` by now, and forgets what was brought.
  // [stream's thread; may block; may fail]
  Status launch(Stream& compute);
  // Divides what was gathered. [stream's thread; may fail]
  Status average(Stream& stream, const tn_span& divisor);
  // Where all ranks' rows are; empty for a parameter that is not sparse. [any-thread; does not block; cannot fail]
  SparseRows rows(uint32_t parameter) const noexcept;

  const CopyTotals& copied() const noexcept { return copied_; }
  // Declares what `stream` did with the rows. [stream's thread; may fail]
  Status used_on(Stream& stream);

 private:
  struct Table {
    uint32_t parameter = 0;
    std::string name{}, event{};  // "rows of emb", in timelines
    DType dtype = f32;
    uint64_t row_bytes = 0, most_rows = 0;
    Buffer indices{}, values{};  // a block of each rank
    tn_span own_indices{}, own_values{};
    Kernel division{};  // empty: nothing is divided
    tn_span from_indices{}, from_values{};
  };

  // Its position among tables_, or their number.
  size_t find(uint32_t parameter) const noexcept;
  Status launch(Table& table);
  Status fill_own(Table& table);

  Lane* lane_ = nullptr;
  Timeline timeline_{};
  std::vector<Table> tables_{};
  CopyTotals copied_{};
  bool waits_ = false;  // the host, for each
};

}  // namespace tenon::overlap
