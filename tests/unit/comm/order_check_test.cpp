// SPDX-License-Identifier: Apache-2.0
// order_check_test.cpp: what ranks that stand still said, judged.
//
// Invariant: programs that submit in one order are never blamed, however far each rank is and however old what it said.
#include "comm/order_check.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace tenon;
using namespace tenon::comm;

namespace {

CommOp op(uint32_t kind, uint64_t count, int32_t peer = 0) {
  CommOp out;
  out.abi.kind = kind;
  out.abi.dtype = static_cast<uint32_t>(f32);
  out.abi.reduce = kind == TN_COMM_ALL_REDUCE ? TN_REDUCE_SUM : 0;
  out.abi.count = count;
  out.abi.peer = peer;
  return out;
}
CommOp sum(uint64_t count) { return op(TN_COMM_ALL_REDUCE, count); }
CommOp to(int32_t rank) { return op(TN_COMM_SEND, 4, rank); }
CommOp from(int32_t rank) { return op(TN_COMM_RECV, 4, rank); }

using Groups = std::vector<std::vector<CommOp>>;

// What a rank says that has submitted `groups`, as others read it.
Standing said(uint32_t size, const Groups& groups, std::vector<Standing::Behind> behind = {}) {
  auto flight = std::make_unique<Flight>();
  flight->count_messages(size);
  for (const auto& group : groups) {
    flight->note(group);
    flight->accepted();
  }
  Standing out = Standing::of(flight->noted(), true);
  out.behind = std::move(behind);
  const auto read = Standing::read(out.text());
  REQUIRE(read.has_value());
  CHECK(*read == out);
  return *read;
}

Assembly assembly(const std::vector<Groups>& ranks) {
  Assembly out{.key = "comm/a", .name = "a", .size = static_cast<uint32_t>(ranks.size())};
  for (uint32_t r = 0; r < ranks.size(); ++r) out.ranks.emplace(r, said(out.size, ranks[r]));
  return out;
}
std::string circle_in(const Assembly& one) { return circle(std::span(&one, 1)).words; }
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("order check: another count is told with both sides") {
  const std::string told = difference(assembly({{{sum(1)}, {sum(7)}}, {{sum(1)}, {sum(8)}}}));
  CHECK_MESSAGE(
      has(told,
          "group 2 of collectives rank 0 has all_reduce sum of 7 f32, rank 1 has all_reduce sum of 8 f32"),
      told);
}

TEST_CASE("order check: messages and the order inside of a group are each rank's own") {
  const Assembly one = assembly({{{to(1)}, {sum(1), sum(2)}}, {{sum(2), from(0), sum(1)}}});
  CHECK(difference(one).empty());
  CHECK(circle_in(one).empty());
}

TEST_CASE("order check: a group that was refused was never there") {
  Flight flight;
  flight.count_messages(2);
  flight.note(std::vector<CommOp>{sum(1)});
  flight.accepted();
  const Standing before = Standing::of(flight.noted(), true);
  flight.note(std::vector<CommOp>{to(1), sum(3)});
  CHECK(Standing::of(flight.noted(), true) == before);
  CHECK(Standing::of(flight.noted(), false).groups == 2);
  flight.refused();
  CHECK(Standing::of(flight.noted(), true) == before);
  CHECK(Standing::of(flight.noted(), false) == before);
}

TEST_CASE("order check: three ranks of which each receives first wait in a circle") {
  const Assembly one = assembly({{{from(2)}}, {{from(0)}}, {{from(1)}}});
  const std::string told = circle_in(one);
  for (const char* part : {"rank 0 waits for rank 2 in group 1 (recv of 4 f32 from rank 2)",
                           "rank 2 waits for rank 1", "rank 1 waits for rank 0"})
    CHECK_MESSAGE(has(told, part), told);
  CHECK(circle_in(assembly({{{from(2)}, {to(1)}}, {{from(0)}, {to(2)}}, {{from(1)}, {to(0)}}})) != "");
  CHECK(circle_in(assembly({{{from(2)}}, {{from(0)}}, {{to(0)}, {from(1)}}})) == "");
  CHECK(circle_in(assembly({{{from(2)}}, {{from(0)}}, {}})) == "");
}

TEST_CASE("order check: a message that may have been taken along is no reason to wait") {
  CHECK(circle_in(assembly({{{to(1)}, {from(1)}}, {{to(0)}, {from(0)}}})) == "");
  CHECK(circle_in(assembly({{{to(1)}, {sum(1)}}, {{sum(1)}}})) == "");
  CHECK(circle_in(assembly({{{from(1)}}, {{to(0)}, {to(0)}, {from(0)}}})) == "");
}

TEST_CASE("order check: a collective against a message is a circle, naming both") {
  const std::string told = circle_in(assembly({{{sum(9)}}, {{from(0)}}, {{sum(9)}}}));
  CHECK_MESSAGE(has(told, "waits for rank 1 in group 1 (all_reduce sum of 9 f32)"), told);
  CHECK_MESSAGE(has(told, "rank 1 waits for rank 0 in group 1 (recv of 4 f32 from rank 0)"), told);
}

TEST_CASE("order check: a root that has gone ahead is waited for by nobody who has come") {
  CHECK(circle_in(assembly({{{op(TN_COMM_BROADCAST, 5, 0)}, {sum(1)}}, {{op(TN_COMM_BROADCAST, 5, 0)}}})) ==
        "");
  CHECK(circle_in(assembly(
            {{{op(TN_COMM_BROADCAST, 5, 0)}, {from(1)}}, {{to(0)}, {op(TN_COMM_BROADCAST, 5, 0)}}})) == "");
  CHECK(circle_in(assembly(
            {{{from(1)}, {op(TN_COMM_BROADCAST, 5, 0)}}, {{op(TN_COMM_BROADCAST, 5, 0)}, {to(0)}}})) != "");
}

TEST_CASE("order check: two communicators in another order are a circle, once both orders are known") {
  const auto in = [](const char* key, std::vector<Standing::Behind> first,
                     std::vector<Standing::Behind> second, bool second_came) {
    Assembly out{.key = key, .name = key, .size = 2};
    out.ranks.emplace(0, said(2, {{sum(1)}}, std::move(first)));
    out.ranks.emplace(1, said(2, second_came ? Groups{{sum(1)}} : Groups{}, std::move(second)));
    return out;
  };
  const auto behind = [](const char* key, uint32_t rank) {
    return std::vector<Standing::Behind>{
        {.group = 1, .other = 1, .rank = rank, .size = 2, .key = key, .name = key}};
  };
  for (const bool came : {true, false}) {
    const std::vector<Assembly> all{in("a", {}, behind("b", 1), came), in("b", behind("a", 0), {}, true)};
    const Circle found = circle(all);
    CHECK_MESSAGE(has(found.words, "rank 0 waits for rank 1 in group 1 of 'a' (all_reduce sum of 1 f32)"),
                  found.words);
    CHECK_MESSAGE(has(found.words, "rank 1 waits for rank 0 in group 1 of 'b' (all_reduce sum of 1 f32)"),
                  found.words);
    CHECK(found.assemblies.size() == 2);
    CHECK(circle(std::span(all).first(1)).words == "");
  }
  const std::vector<Assembly> alike{in("a", {}, {}, true), in("b", behind("a", 0), behind("a", 1), true)};
  CHECK(circle(alike).words == "");
}

TEST_CASE("order check: what is no statement is read as none") {
  const std::string text = said(2, {{sum(1), to(1)}}).text();
  for (size_t length = 0; length < text.size(); ++length) {
    const auto read = Standing::read(std::string_view(text).substr(0, length));
    CHECK_FALSE(read.has_value());
  }
  CHECK_FALSE(Standing::read("9999999999999999999999 ").has_value());
  CHECK_FALSE(Standing::read("1 1 1 99999999 ").has_value());
}

TEST_CASE("order check: programs in one order are never blamed, however far each rank is") {
  std::mt19937_64 random(test::seed());
  const auto draw = [&](uint64_t below) { return static_cast<uint32_t>(random() % below); };
  for (int round = 0; round < 400; ++round) {
    const uint32_t size = 2 + draw(4);
    // Two communicators of all ranks on one stream of each rank, in one order.
    std::vector<std::array<Groups, 2>> ranks(size);
    std::vector<std::array<std::vector<Standing::Behind>, 2>> behind(size);
    std::vector<uint32_t> last(size, 2);
    std::vector<bool> stopped(size, false);
    const char* const keys[] = {"a", "b"};
    const auto submit = [&](uint32_t rank, uint32_t comm, CommOp what) {
      stopped[rank] = stopped[rank] || draw(30) == 0;
      if (stopped[rank]) return;
      if (last[rank] == 1 - comm)
        behind[rank][comm].push_back({.group = ranks[rank][comm].size() + 1,
                                      .other = ranks[rank][1 - comm].size(),
                                      .rank = rank,
                                      .size = size,
                                      .key = keys[1 - comm],
                                      .name = keys[1 - comm]});
      last[rank] = comm;
      ranks[rank][comm].push_back({what});
    };
    for (uint32_t step = 0; step < 60; ++step) {
      const uint32_t comm = draw(2), kind = draw(4), root = draw(size),
                     other = (root + 1 + draw(size - 1)) % size;
      if (kind == 0) {
        submit(root, comm, to(static_cast<int32_t>(other)));
        submit(other, comm, from(static_cast<int32_t>(root)));
        continue;
      }
      const CommOp what = kind == 1   ? op(TN_COMM_BROADCAST, step, static_cast<int32_t>(root))
                          : kind == 2 ? op(TN_COMM_REDUCE, step, static_cast<int32_t>(root))
                                      : sum(step);
      for (uint32_t rank = 0; rank < size; ++rank) submit(rank, comm, what);
    }
    std::vector<Assembly> all;
    for (uint32_t comm = 0; comm < 2; ++comm) {
      all.push_back({.key = keys[comm], .name = keys[comm], .size = size});
      for (uint32_t rank = 0; rank < size; ++rank)
        if (draw(8) != 0) all.back().ranks.emplace(rank, said(size, ranks[rank][comm], behind[rank][comm]));
    }
    CAPTURE(round);
    CHECK(difference(all[0]) == "");
    CHECK(difference(all[1]) == "");
    CHECK(circle(all).words == "");
  }
}
