// SPDX-License-Identifier: Apache-2.0
// flight_test.cpp: what ranks write down when their communicator fails, and the story it makes.
//
// Invariant: every story here names the rank that others waited for, or the group that was not the same.
#include "ranks.hpp"
#include "support/temp_folder.hpp"
#include "tools/flight_story.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

using namespace comm_test;
using tool::FlightRecord;

namespace {

// A folder that this process writes its records to.
struct Flights {
  Flights() { REQUIRE(setenv("TENON_FLIGHT_DIR", folder.path().c_str(), 1) == 0); }
  std::string story() const {
    const Result<std::string> told = tool::tell_flight(folder.path());
    REQUIRE_MESSAGE(told.ok(), told.message());
    return *told;
  }
  // The record of a rank of the first 'world'; "" when there is none.
  std::string of(uint32_t rank) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("world.0.") && name.ends_with(".rank" + std::to_string(rank) + ".json"))
        return entry.path();
    }
    return {};
  }
  bool has(uint32_t rank) const { return !of(rank).empty(); }
  tenon::test::TempFolder folder;
};

// All ranks do `body`; what they return is not looked at: the records are.
void fly(uint32_t size, Timeout timeout, const std::function<Status(Rank&)>& body) {
  Result<Runtime> tenon = comm_test::runtime();
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  const Store store = Store::in_process();
  const Result<Device> device = tenon->device("cpu");
  REQUIRE_MESSAGE(device.ok(), device.message());
  as_threads(size, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join(*device, store, rank, size, {.timeout = timeout}));
    return body(r);
  });
}

void check_holds(const std::string& story, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    CHECK_MESSAGE(story.find(part) != std::string::npos, "no '", part, "' in:\n", story);
}

FlightRecord record(uint32_t rank, uint64_t groups, uint64_t ended_ns) {
  FlightRecord out{.communicator = "world", .device = "cpu:0", .code = "TN_TIMEOUT", .message = "waited"};
  out.rank = rank;
  out.size = 3;
  out.groups = out.collectives = groups;
  out.ended_ns = ended_ns;
  for (uint64_t g = groups < 2 ? 1 : groups - 1; g <= groups; ++g)
    out.operations.push_back({.group = g,
                              .count = 8,
                              .at_ns = g * 1'000'000'000,
                              .kind = "all_reduce",
                              .dtype = "f32",
                              .reduce = "sum"});
  return out;
}

}  // namespace

TEST_CASE("flight: a mismatch leaves a record of every rank, and the story names the group and both sides") {
  const Flights flights;
  fly(3, std::chrono::seconds(5), [](Rank& r) -> Status {
    for (int i = 0; i < 3; ++i) TN_TRY(sum(r, 16));
    return sum(r, r.rank == 1 ? 17 : 16);
  });
  check_holds(
      flights.story(),
      {"communicator 'world': 3 ranks, 3 records", "rank 2 on cpu:0 submitted 4 groups", "TN_MISMATCH",
       "group 4 is not the same everywhere: rank 0 submitted all_reduce sum of 16 f32, rank 1 all_reduce "
       "sum of 17 f32"});
}

TEST_CASE("flight: a rank that does not come is the one without a record") {
  const Flights flights;
  std::atomic<int> told{0};
  std::optional<Rank> absent;  // neither asks nor leaves before the story is told
  fly(3, std::chrono::milliseconds(500), [&](Rank& r) -> Status {
    TN_TRY(sum(r, 16));
    if (r.rank == 2) {
      while (told < 2) std::this_thread::yield();
      absent = std::move(r);
      return {};
    }
    Status outcome = sum(r, 16);
    ++told;
    return outcome;
  });
  check_holds(flights.story(), {"3 ranks, 2 records", "rank 0 on cpu:0 submitted 2 groups", "TN_TIMEOUT",
                                "rank 2 left no record"});
}

TEST_CASE("flight: who aborts leaves a record, and who submits nothing more leaves one when it asks") {
  const Flights flights;
  std::atomic<bool> aborted = false;
  fly(2, std::chrono::seconds(20), [&](Rank& r) -> Status {
    TN_TRY(sum(r, 16));
    if (r.rank == 0) {
      TN_TRY(r.comm.abort());
      aborted = true;
      return {};
    }
    while (!aborted) std::this_thread::yield();
    CHECK(r.comm.health().code() == TN_ABORTED);
    CHECK_MESSAGE(flights.has(0), "of who aborted");
    CHECK_MESSAGE(flights.has(1), "of who asked");
    return {};
  });
  check_holds(flights.story(), {"2 ranks, 2 records", "rank 0 on cpu:0 submitted 1 group", "TN_ABORTED"});
}

TEST_CASE("flight: who destroys what has ended leaves a record, and who lets it go does") {
  const Flights flights;
  std::atomic<bool> aborted = false;
  fly(3, std::chrono::seconds(20), [&](Rank& r) -> Status {
    TN_TRY(sum(r, 16));
    if (r.rank == 0) {
      TN_TRY(r.comm.abort());
      aborted = true;
      return {};
    }
    while (!aborted) std::this_thread::yield();
    if (r.rank == 1) {
      static_cast<void>(r.comm.destroy());
      CHECK_MESSAGE(flights.has(1), "of who destroyed it");
    }
    r.comm = {};
    CHECK(flights.has(r.rank));
    return {};
  });
  check_holds(flights.story(), {"3 ranks, 3 records"});
}

TEST_CASE("flight: who leaves in good order leaves no record") {
  const Flights flights;
  fly(2, std::chrono::seconds(20), [&](Rank& r) -> Status {
    TN_TRY(sum(r, 16));
    if (r.rank == 0) TN_TRY(r.comm.destroy());
    r.comm = {};
    return {};
  });
  CHECK(!flights.has(0));
  CHECK(!flights.has(1));
}

TEST_CASE("flight: records of an older run are counted, and no part of the story") {
  const Flights flights;
  const auto fail = [](Rank& r) -> Status {
    TN_TRY(sum(r, 16));
    return sum(r, r.rank == 1 ? 17 : 16);
  };
  fly(3, std::chrono::seconds(5), fail);
  CHECK(flights.story().find("older") == std::string::npos);
  fly(2, std::chrono::seconds(5), fail);
  const std::string story = flights.story();
  check_holds(story, {"communicator 'world': 2 ranks, 2 records", "3 records of 1 older run are here, too"});
  CHECK(story.find("3 ranks") == std::string::npos);
}

TEST_CASE(
    "flight: a group that was refused is not part of the record, and more than 256 operations are not kept") {
  const Flights flights;
  fly(2, std::chrono::seconds(5), [](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, 8)));
    for (int i = 0; i < 300; ++i) TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
    CHECK(r.comm.submit(r.stream, {CommOp::broadcast(data, data, f32, 7)}).code() == TN_INVALID);
    TN_TRY(r.stream.sync());
    if (r.rank == 0) TN_TRY(r.comm.abort());
    return sum(r, 8);
  });
  std::ifstream file(flights.of(1));
  const Result<FlightRecord> read = tool::read_flight({std::istreambuf_iterator<char>(file), {}});
  REQUIRE_MESSAGE(read.ok(), read.message());
  CHECK(read->code == "TN_ABORTED");
  CHECK(read->groups <= 301);
  CHECK(read->operations.size() == 256);
  CHECK(read->operations.back().group == read->groups);
  CHECK(read->operations.back().kind == "all_reduce");
}

TEST_CASE("flight: who is behind, in what the others wait, and for how long") {
  const std::string story = tool::flight_story(
      {record(0, 9, 10'500'000'000), record(1, 9, 10'250'000'000), record(2, 7, 10'000'000'000)});
  check_holds(
      story, {"3 ranks, 3 records", "ranks 0, 1 waited for rank 2, which submitted only 7 groups, in group 8",
              "(all_reduce sum of 8 f32) for 2.500 s", "ended after 0.500 s"});
}

TEST_CASE(
    "flight: a rank without a record is named, and groups that nobody knows any more differ in nothing") {
  const std::string story = tool::flight_story({record(2, 900, 10), record(0, 900, 20)});
  check_holds(story,
              {"3 ranks, 2 records", "rank 1 left no record: killed, stopped, still running, or ended well"});
  CHECK(story.find("waited for") == std::string::npos);  // which nobody knows
  CHECK(story.find("not the same") == std::string::npos);
  check_holds(tool::flight_story({record(0, 4, 1), record(1, 4, 1), record(2, 4, 1)}),
              {"all ranks submitted the same"});
}

TEST_CASE("flight: messages of some ranks shift nobody's numbers, and one that has no other side is told") {
  const Flights flights;
  fly(3, std::chrono::milliseconds(500), [&](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, 8)));
    for (int i = 0; i < 3; ++i) {
      if (r.rank == 0) TN_TRY(r.comm.submit(r.stream, {CommOp::send(data, f32, 1)}));
      if (r.rank == 1) TN_TRY(r.comm.submit(r.stream, {CommOp::recv(data, f32, 0)}));
      TN_TRY(sum(r, 16));
    }
    if (r.rank == 1) TN_TRY(r.comm.submit(r.stream, {CommOp::recv(data, f32, 0)}));
    return sum(r, 16);
  });
  const std::string story = flights.story();
  check_holds(
      story, {"rank 0 on cpu:0 submitted 7 groups, 4 with collectives, the last of them all_reduce",
              "rank 1 on cpu:0 submitted 8 groups, 4 with collectives", "rank 2 on cpu:0 submitted 4 groups,",
              "of messages from rank 0 to rank 1 3 were sent and 4 were received"});
  CHECK(story.find("not the same") == std::string::npos);
  CHECK(story.find("waited for rank") == std::string::npos);
}

TEST_CASE(
    "flight: ranks that wait for each other in a circle of messages are told, and who waits for them is not "
    "in it") {
  const auto waiting = [](uint32_t rank, const char* kind, int64_t peer) {
    FlightRecord out = record(rank, 0, 10);
    out.size = 4;
    out.groups = 1;
    out.operations = {{.group = 1, .count = 8, .kind = kind, .dtype = "f32", .peer = peer}};
    return out;
  };
  check_holds(
      tool::flight_story(
          {waiting(0, "send", 1), waiting(1, "send", 3), waiting(2, "recv", 1), waiting(3, "send", 0)}),
      {"nobody goes on: rank ", "rank 0 waits for rank 1 to receive", "rank 1 waits for rank 3 to receive",
       "rank 3 waits for rank 0 to receive", ": submit what each sends and receives as one group"});
  check_holds(tool::flight_story({waiting(0, "recv", 2), waiting(1, "recv", 0), waiting(2, "recv", 1)}),
              {"rank 0 waits for rank 2 to send", "rank 1 waits for rank 0 to send",
               "rank 2 waits for rank 1 to send"});
  const std::string row =
      tool::flight_story({waiting(0, "send", 1), waiting(1, "send", 2), waiting(2, "recv", 1)});
  CHECK(row.find("nobody goes on") == std::string::npos);
}

TEST_CASE("flight: a group that the record holds in part is compared with nothing") {
  const auto held = [](uint32_t rank, uint64_t groups) {  // of three operations each, of which 256 were kept
    FlightRecord out = record(rank, groups, 10);
    out.operations.clear();
    for (uint64_t group = 1; group <= groups; ++group)
      for (const uint64_t count : {7, 8, 9})
        out.operations.push_back(
            {.group = group, .count = count, .kind = "all_reduce", .dtype = "f32", .reduce = "sum"});
    out.operations.erase(out.operations.begin(), out.operations.end() - 256);
    return out;
  };
  const std::string story = tool::flight_story({held(0, 100), held(1, 101), held(2, 100)});
  CHECK(story.find("not the same") == std::string::npos);
  check_holds(story, {"rank 1 waited for ranks 0, 2, which submitted only 100 groups, in group 101 "
                      "(all_reduce sum of 7 f32 + "});
}

TEST_CASE("flight: what is no record is refused by file and place") {
  const tenon::test::TempFolder folder;
  CHECK(tool::tell_flight(folder / "absent").code() == TN_NOT_FOUND);
  CHECK(tool::tell_flight(folder.path()).code() == TN_NOT_FOUND);
  folder.write("a.json", R"({"tenon_flight": 2})");
  CHECK(tool::tell_flight(folder.path()).code() == TN_VERSION);
  folder.write("a.json", R"({"tenon_flight": 1, "communicator": 3})");
  const Result<std::string> told = tool::tell_flight(folder.path());
  CHECK(told.code() == TN_INVALID);
  check_holds(std::string(told.message()), {"a.json", "no flight record"});
}
