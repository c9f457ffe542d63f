// SPDX-License-Identifier: Apache-2.0
// part.hpp: one operation of a group as one rank brings it: what it is, and where its memory lies.
//
// Invariant: what the plugin's limits list and comm_sides has measured is all that becomes a part; its memory is reached by every
// rank of the communicator.
#pragma once

#include <tenon/comm.h>
#include <tenon/result.hpp>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cuda::comm {

struct Part {
  uint32_t kind = 0, dtype = 0, reduce = 0, width = 0;  // width: bytes of an element
  uint32_t peer = 0;                                    // root, or the other rank of a message
  uint64_t count = 0;
  std::vector<uint64_t> send_counts{}, recv_counts{};  // of all_to_all_v
  uint64_t from = 0, to = 0;                           // addresses; 0 for a side that there is not
  uint64_t send_bytes = 0, recv_bytes = 0;
  uint64_t factor_at = 0;  // of PREMUL_SUM; 0: `factor` counts
  double factor = 1;

  bool is_message() const noexcept { return kind == TN_COMM_SEND || kind == TN_COMM_RECV; }
  bool reduces() const noexcept;
  // Where member `reader` finds what this rank has for it. [any-thread; does not block; cannot fail]
  uint64_t block_for(uint32_t reader) const noexcept;
  // "all_reduce sum of 7 f32". [any-thread; does not block; may throw bad_alloc]
  std::string told() const;
};

// What is taken: kinds, reductions, types. [any-thread; does not block; cannot fail]
void list_taken(tn_comm_limits& out) noexcept;
// TN_MISMATCH where what two ranks bring to one exchange does not fit, with both sides.
// [any-thread; does not block; may fail]
Status check_fit(uint32_t rank, const Part& mine, uint32_t other, const Part& theirs);

}  // namespace tenon::cuda::comm
