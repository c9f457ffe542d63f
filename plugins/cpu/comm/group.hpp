// SPDX-License-Identifier: Apache-2.0
// group.hpp: one submit, resolved: addresses instead of spans, messages instead of all_to_all_v.
//
// Invariant: everything that can be refused was refused when the group was made; running one fails for others only.
#pragma once

#include "arithmetic.hpp"
#include "segment.hpp"

#include <tenon/author/comm_checks.hpp>

#include <memory>
#include <span>
#include <vector>

namespace tenon::cpu::comm {

// One collective. A side that this rank does not use is empty.
struct Operation {
  uint32_t kind = 0, dtype = 0, reduce = 0;
  int32_t root = -1;
  uint64_t count = 0, width = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  Window send_at{}, recv_at{};
  double scalar = 1;
  const std::byte* factor = nullptr;  // read when the group runs
};

// One message.
struct Letter {
  bool sends = false;
  uint32_t peer = 0, dtype = 0;
  uint64_t count = 0, bytes = 0;
  std::byte* data = nullptr;
  Window window{};  // of what is sent
};

// What is sent out of a buffer that is received into: set aside before anything else happens.
struct Copy {
  std::unique_ptr<std::byte[]> to;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};

struct Group {
  uint64_t sequence = 0;
  std::vector<Operation> operations{};
  std::vector<Letter> letters{};
  std::vector<Copy> copies{};

  void clear() noexcept {
    operations.clear();
    letters.clear();
    copies.clear();
  }
};

using author::is_rooted;
using author::kind_name;
using author::reduce_name;
using author::reduces;

// What a group is made against.
struct Maker {
  uint32_t rank = 0, size = 1;
  void (*find_window)(const tn_span& span, Window& out) = nullptr;  // where the others find it
  std::byte* (*address_of)(const tn_span& span) = nullptr;          // in this process
};
// Fills `out`. TN_INVALID for spans that are too short or overlap otherwise than in place; TN_UNSUPPORTED for a mean or
// factor of bool, and for more than Board::most_cards collectives. [any-thread; may block; may fail]
Status make_group(const Maker& maker, std::span<const tn_comm_op> ops, Group& out);

}  // namespace tenon::cpu::comm
