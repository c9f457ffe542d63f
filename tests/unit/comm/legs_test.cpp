// SPDX-License-Identifier: Apache-2.0
// legs_test.cpp: what an all-reduce is cut into for each route, and how ranks are grouped for it.
#include "comm/legs.hpp"
#include "comm/comm_state.hpp"
#include "comm/grouping.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using comm::Legs;
using comm::Seat;

namespace {

CommOp all_reduce(uint64_t count, Reduction how) {
  const tn_span send{nullptr, 1'000, count * 2, TN_SPACE_HOST_ADDRESS, 0};
  const tn_span recv{nullptr, 9'000, count * 2, TN_SPACE_HOST_ADDRESS, 0};
  return CommOp::all_reduce(send, recv, f16, how, 3);
}

std::vector<Placement> on_hosts(std::initializer_list<const char*> hosts) {
  std::vector<Placement> out;
  for (const char* host : hosts) out.push_back({.host = host, .boot = "b", .device = "cpu:0"});
  return out;
}

}  // namespace

TEST_CASE("legs: flat is the operation itself") {
  Legs legs;
  comm::add_legs(all_reduce(10, Reduction::avg), Route::flat, {.size = 8}, legs);
  REQUIRE(legs.flat.size() == 1);
  CHECK(legs.flat[0].abi.reduce == TN_REDUCE_AVG);
  CHECK((legs.group.empty() && legs.leaders.empty() && legs.shards.empty() && legs.group_again.empty()));
}

TEST_CASE("legs: leaders reduce and broadcast, and the mean is taken in the first step alone") {
  for (const uint32_t member : {0u, 2u}) {
    Legs legs;
    comm::add_legs(all_reduce(10, Reduction::avg), Route::leaders,
                   {.size = 8, .member = member, .members = 4, .leader = 2}, legs);
    REQUIRE(legs.group.size() == 1);
    CHECK(legs.group[0].abi.kind == TN_COMM_REDUCE);
    CHECK(legs.group[0].abi.peer == 2);
    CHECK(legs.group[0].abi.reduce == TN_REDUCE_PREMUL_SUM);
    CHECK(legs.group[0].abi.scalar == 1.0 / 8);
    REQUIRE(legs.leaders.size() == (member == 2 ? 1 : 0));
    if (member == 2) {
      CHECK(legs.leaders[0].abi.reduce == TN_REDUCE_SUM);
      CHECK(legs.leaders[0].abi.send.offset == 9'000);
    }
    REQUIRE(legs.group_again.size() == 1);
    CHECK(legs.group_again[0].abi.kind == TN_COMM_BROADCAST);
    CHECK(legs.shards.empty());
  }
}

TEST_CASE("legs: a group that cannot reduce all-reduces") {
  Legs legs;
  comm::add_legs(all_reduce(10, Reduction::max), Route::leaders,
                 {.size = 8, .member = 1, .members = 4, .leader = 2, .reduces = false}, legs);
  REQUIRE(legs.group.size() == 1);
  CHECK(legs.group[0].abi.kind == TN_COMM_ALL_REDUCE);
  CHECK(legs.group[0].abi.reduce == TN_REDUCE_MAX);
}

TEST_CASE("legs: shards cover every element once, whatever is left over") {
  for (const uint64_t count : {0u, 1u, 3u, 4u, 11u, 12u}) {
    uint64_t exchanged = 0;
    for (uint32_t member = 0; member < 4; ++member) {
      Legs legs;
      comm::add_legs(all_reduce(count, Reduction::premul_sum), Route::sharded,
                     {.size = 8, .member = member, .members = 4}, legs);
      CHECK(legs.group.front().abi.kind == TN_COMM_REDUCE_SCATTER);
      CHECK(legs.group.front().abi.scalar == 3);
      CHECK(legs.group.front().abi.recv.offset == 9'000 + 2 * member * (count / 4));
      CHECK(legs.group_again.front().abi.kind == TN_COMM_ALL_GATHER);
      CHECK(legs.group.size() == (count % 4 == 0 ? 1 : 2));
      for (const CommOp& op : legs.shards) {
        CHECK(op.abi.reduce == TN_REDUCE_SUM);
        CHECK(op.abi.scalar == 1);
        exchanged += op.abi.count;
      }
    }
    CHECK(exchanged == count);
  }
}

TEST_CASE("grouping: ranks of one host are a group, hosts of one name and another boot are not") {
  auto places = on_hosts({"a", "b", "a", "b", "a"});
  places[4].boot = "another";
  const auto state = comm::grouped(places, {});
  REQUIRE_MESSAGE(state.ok(), state.message());
  CHECK((*state)->groups == std::vector<std::vector<uint32_t>>{{0, 2}, {1, 3}, {4}});
  CHECK((*state)->leaders == std::vector<uint32_t>{0, 1, 4});
  CHECK((*state)->ranks_per_group == 0);
}

TEST_CASE("grouping: what a rank says counts more than its host, and neighbours by number more than both") {
  auto places = on_hosts({"a", "a", "b", "b"});
  for (size_t i = 0; i < places.size(); ++i) places[i].group = i % 2 == 0 ? "even" : "odd";
  CHECK((*comm::grouped(places, {}))->groups == std::vector<std::vector<uint32_t>>{{0, 2}, {1, 3}});
  const auto numbered = comm::grouped(places, {.hierarchical_allreduce_inter_nranks = 1});
  CHECK((*numbered)->groups == std::vector<std::vector<uint32_t>>{{0}, {1}, {2}, {3}});
}

namespace {

// A communicator that only has ranks, a name and a store.
struct Bare final : detail::CommState {
  Bare(const Store& at, uint32_t own, uint32_t all) : CommState(nullptr, at) {
    rank = own, size = all, key = "comm/world/0";
    options.timeout = std::chrono::milliseconds(100);
  }
  Status submit(Stream&, std::span<const CommOp>, std::optional<Route>) override { return {}; }
  Status abort() override { return {}; }
  Status give_up() override { return {}; }
  Status health() override { return {}; }
  Status destroy(Timeout) override { return {}; }
  Result<std::shared_ptr<CommState>> part(std::span<const uint32_t>, const std::string&) override {
    return Status(TN_UNSUPPORTED, "it has no parts");
  }
};

}  // namespace

TEST_CASE("grouping: every rank hears where the others are, and which of them serves the store") {
  Store store = Store::in_process();
  const auto places = on_hosts({"a", "b"});
  Bare world(store, 0, 2);
  REQUIRE(store.set("place/1", "b\nb\n-1\ncpu:0\n\nkeeper").ok());
  const auto all = comm::exchange(places[0], world, "place");
  REQUIRE_MESSAGE(all.ok(), all.message());
  CHECK(all->of == places);
  CHECK(all->keeper == 1);
}

TEST_CASE("grouping: all who did not come are named, and what to do") {
  Store store = Store::in_process();
  Bare world(store, 1, 5);
  REQUIRE(store.set("place/3", "b").ok());
  const auto all = comm::exchange(Placement{.host = "a"}, world, "place");
  CHECK(all.code() == TN_TIMEOUT);
  CHECK_MESSAGE(
      all.message().find("communicator 'world': ranks 0, 2, 4 did not come to its hierarchy within 0.1 s: "
                         "all ranks call Hierarchy::create") == 0,
      all.message());
}
