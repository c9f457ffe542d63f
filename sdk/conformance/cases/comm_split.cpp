// SPDX-License-Identifier: Apache-2.0
// comm_split.cpp: level 3, parts of a communicator by color and key.
//
// Invariant: who belongs where is computed here from the colors and keys of all; a part shows its order by a gather.
#include "conformance/case.hpp"
#include "conformance/comm/trial.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace tenon::conform {

namespace {

constexpr uint32_t ranks = 5;

struct Choice {
  int32_t color = 0, key = 0;
};

Status needs_split(Context& t) {
  TN_TRY(needs_communicators(t));
  const Tables& tables = *TN_TRY(t.tables());
  return t.needs(tables.comm.split != nullptr, "comm.split",
                 "the plugin does not split: the host makes the parts anew");
}

// The members of `color`, in the order that their keys give them.
std::vector<uint32_t> members(const std::vector<Choice>& choices, int32_t color) {
  std::vector<uint32_t> out;
  for (uint32_t q = 0; q < choices.size(); ++q) {
    if (choices[q].color == color) out.push_back(q);
  }
  std::sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(choices[a].key, a) < std::tie(choices[b].key, b);
  });
  return out;
}

// Gathers who is there, and compares.
Status check_order(const Rank& rank, const Communicator& part, const std::vector<uint32_t>& wanted) {
  const uint64_t bytes = 4 * wanted.size();
  const Memory memory = TN_TRY(rank.device.alloc(bytes + 4));
  TN_TRY(rank.stream.fill(memory.span(0, 4), rank.rank, 4));
  tn_comm_op op{};
  op.kind = TN_COMM_ALL_GATHER;
  op.dtype = TN_DTYPE_i32;
  op.count = 1;
  op.send = memory.span(0, 4);
  op.recv = memory.span(4, bytes);
  TN_TRY(part.submit(rank.stream, {&op, 1}));
  const Bytes found = TN_TRY(download(rank.stream, memory.span(4, bytes)));
  if (std::memcmp(found.data(), wanted.data(), bytes) == 0) return {};
  std::string order;
  for (uint64_t i = 0; i < bytes; i += 4) {
    uint32_t one = 0;
    std::memcpy(&one, found.data() + i, 4);
    order += words(i == 0 ? "" : ", ", one);
  }
  std::string right;
  for (const uint32_t q : wanted) right += words(right.empty() ? "" : ", ", q);
  return Status(TN_INTERNAL,
                words("the ranks of a part stand in the order ", order, ", and their keys say ", right));
}

Status split_once(const Rank& rank, const Communicator& whole, const std::vector<Choice>& choices) {
  const Choice mine = choices[rank.rank];
  const std::vector<uint32_t> wanted =
      mine.color < 0 ? std::vector<uint32_t>() : members(choices, mine.color);
  const auto place = std::find(wanted.begin(), wanted.end(), rank.rank) - wanted.begin();
  const Communicator part = TN_TRY(
      whole.split(mine.color, mine.key, static_cast<uint32_t>(place), static_cast<uint32_t>(wanted.size())));
  Status said = mine.color < 0 ? Status() : check_order(rank, part, wanted);
  return rank.agree(std::move(said));
}

Status splits(Context& t, const std::vector<std::vector<Choice>>& rounds) {
  return as_threads(t, ranks, [&](Rank& rank) -> Status {
    for (const auto& choices : rounds) TN_TRY(split_once(rank, rank.comm, choices));
    t.check(true);
    const Exchange small{.count = 77, .seed = 2};
    return rank.agree(perform(rank, rank.comm, rank.stream, small));
  });
}

}  // namespace

CONFORM_CASE(3, "split: ranks of one color form a communicator, ordered by key and then by rank") {
  TN_TRY(needs_split(t));
  std::vector<std::vector<Choice>> rounds{
      {{0, 4}, {0, 3}, {0, 2}, {0, 1}, {0, 0}},   // backwards
      {{1, 0}, {2, 0}, {1, 0}, {2, 0}, {1, 0}},   // by rank
      {{7, -3}, {7, 5}, {7, -9}, {7, 5}, {0, 0}}  // negative keys, equal ones, a part of one
  };
  for (int i = 0; i < (t.quick() ? 4 : 30); ++i) {
    auto& choices = rounds.emplace_back();
    for (uint32_t r = 0; r < ranks; ++r) {
      choices.push_back({.color = static_cast<int32_t>(t.random().below(3)),
                         .key = static_cast<int32_t>(t.random().below(7)) - 3});
    }
  }
  return splits(t, rounds);
}

CONFORM_CASE(3, "split: a negative color takes part and gets nothing") {
  TN_TRY(needs_split(t));
  return splits(t,
                {{{-1, 0}, {0, 1}, {-1, 2}, {0, 0}, {0, 5}}, {{-7, 0}, {-1, 1}, {-1, 2}, {-2, 0}, {-1, 5}}});
}

CONFORM_CASE(3, "split: a part is split again, and is a communicator like any other") {
  TN_TRY(needs_split(t));
  return as_threads(t, 4, [&](Rank& rank) -> Status {
    const uint32_t place = 1 - rank.rank / 2;  // by key: of 0 and 2, and of 1 and 3, the greater comes first
    const Communicator part = TN_TRY(
        rank.comm.split(static_cast<int32_t>(rank.rank % 2), -static_cast<int32_t>(rank.rank), place, 2));
    const Rank seat{
        .t = t, .device = rank.device, .store = rank.store, .rank = place, .size = 2, .together = nullptr};
    const Exchange small{.kind = TN_COMM_ALL_TO_ALL, .count = 333, .seed = 6};
    TN_TRY(rank.agree(perform(seat, part, rank.stream, small)));
    const Communicator one = TN_TRY(part.split(static_cast<int32_t>(place), 0, 0, 1));
    TN_TRY(rank.agree(check_order(rank, one, {rank.rank})));
    t.check(true);
    return rank.agree(perform(seat, part, rank.stream, small));
  });
}

}  // namespace tenon::conform
