// SPDX-License-Identifier: Apache-2.0
// presence_test.cpp: who carries a communicator: a table of ranks and what they come to.
#include "plugins/cuda/comm/presence.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace tenon;
using namespace tenon::cuda::comm;

namespace {

// Rank `r` of `size`: each in a process and on a device of its own, with one NCCL.
Presence rank_of(uint32_t r, uint32_t size) {
  return {.process = 100 + r,
          .size = size,
          .nccl = 22809,
          .host = "box",
          .device = "0000:0" + std::to_string(r + 1) + ":00.0"};
}
std::vector<Presence> apart(uint32_t size) {
  std::vector<Presence> out;
  for (uint32_t r = 0; r < size; ++r) out.push_back(rank_of(r, size));
  return out;
}
std::vector<Presence> together(uint32_t size) {
  auto out = apart(size);
  for (Presence& rank : out) rank.process = 7;
  return out;
}

bool chooses(const std::vector<Presence>& ranks, Way way) {
  const auto said = choose_way(ranks);
  return said.ok() && *said == way;
}
std::string refusal(const std::vector<Presence>& ranks, int32_t code = TN_UNSUPPORTED) {
  const auto said = choose_way(ranks);
  return !said.ok() && said.code() == code ? std::string(said.message()) : "not refused";
}
bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("presence: threads of one process join by themselves, with NCCL or without") {
  CHECK(chooses(together(1), Way::threads));
  CHECK(chooses(together(4), Way::threads));
  auto ranks = together(4);
  for (Presence& rank : ranks) rank.nccl = 0;
  CHECK(chooses(ranks, Way::threads));
  ranks[2].deterministic = true;
  CHECK(chooses(ranks, Way::threads));
}

TEST_CASE("presence: threads are joined by NCCL where all prefer it and all their devices differ") {
  auto ranks = together(3);
  for (Presence& rank : ranks) rank.prefers_nccl = true;
  CHECK(chooses(ranks, Way::nccl));
  SUBCASE("one does not") {
    ranks[1].prefers_nccl = false;
    CHECK(chooses(ranks, Way::threads));
  }
  SUBCASE("two are on one device") {
    ranks[1].device = ranks[2].device;
    CHECK(chooses(ranks, Way::threads));
  }
  SUBCASE("one wants the same bits") {
    ranks[0].deterministic = true;
    CHECK(chooses(ranks, Way::threads));
  }
  SUBCASE("there is no NCCL") {
    ranks[0].nccl = 0;
    CHECK(chooses(ranks, Way::threads));
  }
}

TEST_CASE("presence: processes are joined by NCCL, on one machine or several") {
  CHECK(chooses(apart(2), Way::nccl));
  auto ranks = apart(4);
  ranks[2].host = ranks[3].host = "other";
  ranks[2].device = ranks[0].device;
  ranks[3].device = ranks[1].device;
  CHECK(chooses(ranks, Way::nccl));
  ranks[1].process = ranks[0].process;  // two threads of one process among others
  CHECK(chooses(ranks, Way::nccl));
}

TEST_CASE("presence: processes that NCCL cannot join are refused with the reason") {
  auto ranks = apart(3);
  SUBCASE("a rank without it") {
    ranks[1].nccl = 0;
    ranks[1].why = "NCCL is missing: install libnccl2";
    CHECK(says(refusal(ranks), "rank 1 has no NCCL: NCCL is missing: install libnccl2"));
  }
  SUBCASE("the first rank without it") {
    ranks[0].nccl = 0;
    CHECK(says(refusal(ranks), "rank 0 has no NCCL"));
  }
  SUBCASE("two versions") {
    ranks[2].nccl = 22901;
    CHECK(says(refusal(ranks), "rank 0 has NCCL 22809 and rank 2 has 22901"));
  }
  SUBCASE("two ranks on one device") {
    ranks[2].device = ranks[0].device;
    CHECK(says(refusal(ranks), "ranks 0 and 2 are on one device, 0000:01:00.0"));
  }
  SUBCASE("the same bits always") {
    ranks[2].deterministic = true;
    CHECK(says(refusal(ranks), "rank 2 asks for the same bits always"));
  }
  CHECK(says(refusal(ranks), "its ranks are in several processes"));
}

TEST_CASE("presence: ranks that were told of different sizes do not fit") {
  auto ranks = apart(3);
  ranks[1].size = 4;
  CHECK(says(refusal(ranks, TN_MISMATCH), "rank 1 was told of 4 ranks, and another of 3"));
}

TEST_CASE("presence: what is told is heard as it was") {
  Presence mine = rank_of(3, 5);
  mine.deterministic = mine.prefers_nccl = true;
  mine.nccl = 0;
  mine.why = "of two\nlines";
  const auto heard = Presence::heard(mine.told());
  REQUIRE(heard.ok());
  CHECK(heard->told() == mine.told());
  CHECK(heard->why == mine.why);
  CHECK(heard->device == mine.device);
  for (const char* broken :
       {"", "1 2 3", "1 2 x 0 5\nhost\ndevice\n", "1 2 0 0 3 5\nhost\ndevice\n", "1 2 0 0 5\n"})
    CHECK(Presence::heard(broken).code() == TN_MISMATCH);
}

TEST_CASE("presence: memory is registered as far as every rank asks for it") {
  auto ranks = apart(3);
  CHECK(agreed_enrolling(ranks) == Enrolling::none);
  for (Presence& rank : ranks) rank.enrolling = Enrolling::windows;
  CHECK(agreed_enrolling(ranks) == Enrolling::windows);
  ranks[1].enrolling = Enrolling::buffers;
  CHECK(agreed_enrolling(ranks) == Enrolling::buffers);
  ranks[0].enrolling = Enrolling::none;
  CHECK(agreed_enrolling(ranks) == Enrolling::none);
  const auto heard = Presence::heard(ranks[2].told());
  REQUIRE(heard.ok());
  CHECK(heard->enrolling == Enrolling::windows);
}
