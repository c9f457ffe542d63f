// SPDX-License-Identifier: Apache-2.0
// hosts_test.cpp: communicators over several hosts: the results of one host, and every fault told on all hosts.
//
// Invariant: a fault is made at a place in the order of operations, never at a moment of time.
#include "on_hosts.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <tenon/hierarchy.hpp>

#include <chrono>
#include <cstdio>
#include <random>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;
constexpr Timeout patience = std::chrono::seconds(2);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Every rank fails with `code`, in words that hold `part`.
void check_all(const std::vector<Status>& outcomes, int32_t code, const std::string& part) {
  for (const Status& outcome : outcomes) {
    CHECK_MESSAGE(outcome.code() == code, outcome.message());
    CHECK_MESSAGE(outcome.message().find(part) != std::string_view::npos, outcome.message());
  }
}

// What the sum of numbers that no type holds exactly comes to on each rank.
std::vector<std::string> sums(const Map& map, DType dtype, uint64_t count) {
  const tenon::test::TempFolder folder;
  const auto file = [&](size_t rank) { return folder / std::to_string(rank); };
  together_on(map, [&](Rank& r) -> Status {
    std::mt19937_64 random(r.rank + 1);
    std::vector<std::byte> own(bytes(dtype, count));
    for (uint64_t i = 0; i < count; ++i)
      write(dtype, &own[i * bytes(dtype, 1)], static_cast<double>(random() % 100'003) / 997);
    const Buffer data = TN_TRY(r.uploaded(own));
    TN_TRY(r.comm.all_reduce(r.stream, data, data, dtype));
    TN_TRY(r.stream.download(own, data));
    TN_TRY(r.stream.sync());
    std::ofstream(file(r.rank), std::ios::binary)
        .write(reinterpret_cast<const char*>(own.data()), static_cast<std::streamsize>(own.size()));
    return {};
  });
  std::vector<std::string> out;
  for (size_t rank = 0; rank < map.size(); ++rank) {
    std::stringstream all;
    all << std::ifstream(file(rank), std::ios::binary).rdbuf();
    out.push_back(all.str());
  }
  return out;
}

}  // namespace

TEST_CASE("hosts: every dtype and reduction of all_reduce is the reference's, bit for bit") {
  NEEDS_HOSTS();
  for (const char* map : {"ab", "aabb", "abbcc"}) {
    together_on(map, every_all_reduce);
  }
}

TEST_CASE("hosts: random collectives are the reference's, however ranks are placed") {
  NEEDS_HOSTS();
  const uint64_t seed = tenon::test::seed();
  const auto rounds = tenon::test::full_or<uint64_t>("rounds", 30, 1'000);
  for (const char* map : {"ab", "abab", "aaab", "abcacbb"}) {
    together_on(map, [&](Rank& r) -> Status {
      std::mt19937_64 random(seed + r.size);
      Communicator second =
          TN_TRY(Communicator::create(r.device, r.store, r.rank, r.size, {.name = "second"}));
      for (uint64_t i = 0; i < rounds; ++i) {
        const Task task = draw(random, r.size, 40'000);
        TN_TRY(perform(r, i % 3 == 0 ? second : r.comm, r.stream, task));
      }
      return {};
    });
  }
}

TEST_CASE("hosts: what does not fit into one stage goes in pieces") {
  NEEDS_HOSTS();
  together_on("aab", [](Rank& r) -> Status {
    for (uint32_t kind = TN_COMM_ALL_REDUCE; kind <= TN_COMM_ALL_TO_ALL; ++kind) {
      TN_TRY(perform(r, r.comm, r.stream,
                     {.kind = kind, .dtype = f32, .count = 700'001, .root = 2, .in_place = kind % 2 == 0}));
    }
    return {};
  });
}

// Each operation writes all stages more than once, the first of them while sums of the one before are still to be collected.
TEST_CASE("hosts: what is more than all stages hold, one kind behind another") {
  NEEDS_HOSTS();
  for (const char* map : {"ab", "aab"}) {
    together_on(map, [](Rank& r) -> Status {
      const Task sum{.kind = TN_COMM_ALL_REDUCE, .dtype = i32, .count = 4'300'003};
      for (const bool in_place : {false, true}) {
        Task all = sum, one = sum;
        all.in_place = in_place;
        one.in_place = in_place;
        one.kind = TN_COMM_REDUCE;
        one.root = r.size - 1;
        TN_TRY(perform(r, r.comm, r.stream, all));
        TN_TRY(perform(r, r.comm, r.stream,
                       {.kind = TN_COMM_BROADCAST, .dtype = f32, .count = 4'300'001, .root = 1}));
        TN_TRY(perform(r, r.comm, r.stream, one));
        TN_TRY(perform(r, r.comm, r.stream, {.kind = TN_COMM_ALL_REDUCE, .dtype = f32, .count = 200'001}));
      }
      return {};
    });
  }
}

TEST_CASE("hosts: sums have the bits that one host gives") {
  NEEDS_HOSTS();
  struct Case {
    DType dtype;
    uint64_t count;
  };
  for (const Case& c : {Case{bf16, 300}, Case{f16, 20'000}, Case{f32, 20'000}}) {
    const auto expected = sums("aaaa", c.dtype, c.count);
    CHECK(expected[0].size() == bytes(c.dtype, c.count));
    for (const char* map : {"aabb", "abba", "abcd"}) {
      for (const std::string& found : sums(map, c.dtype, c.count)) CHECK(found == expected[0]);
    }
  }
}

TEST_CASE("hosts: messages go between hosts and within them, in one group with a collective") {
  NEEDS_HOSTS();
  together_on("aabb", [](Rank& r) -> Status {
    const uint64_t count = 3'000'000;  // past one piece
    const Buffer from = TN_TRY(r.uploaded(brought(i64, 3, r.rank, count)))
    , to = TN_TRY(r.buffer(count * 8));
    const Buffer data = TN_TRY(r.uploaded(brought(f32, 5, r.rank, 4'000)));
    TN_TRY(r.comm.submit(r.stream,
                         {CommOp::send(from, i64, (r.rank + 1) % 4), CommOp::all_reduce(data, data, f32),
                          CommOp::recv(to, i64, (r.rank + 3) % 4)}));
    TN_TRY(r.expect(to, brought(i64, 3, (r.rank + 3) % 4, count), "a message"));
    TN_TRY(r.expect(data, all_reduced(f32, Reduction::sum, 5, 4, 4'000), "the sum beside it"));
    // Rank r sends q + 1 numbers to rank q.
    const std::vector<uint64_t> sends{1, 2, 3, 4}, receives(4, r.rank + 1);
    const Buffer out = TN_TRY(r.uploaded(brought(i32, 7, r.rank, 10)))
    , in = TN_TRY(r.buffer(4u * 4 * (r.rank + 1)));
    TN_TRY(r.comm.submit(r.stream, {CommOp::all_to_all(out, sends, in, receives, i32)}));
    const uint64_t skipped[] = {0, 1, 3, 6};
    return r.expect(in,
                    blocks(4, [&](uint32_t q) { return brought(i32, 7, q, r.rank + 1, skipped[r.rank]); }),
                    "all_to_all_v");
  });
}

TEST_CASE("hosts: two ranks of different hosts talk while the others do not") {
  NEEDS_HOSTS();
  together_on("aabb", [](Rank& r) -> Status {
    for (uint64_t i = 0; i < 50 && (r.rank == 0 || r.rank == 3); ++i) {
      const Buffer data = TN_TRY(r.uploaded(brought(u8, i, r.rank, 100 + i)));
      const CommOp op = r.rank == 0 ? CommOp::send(data, u8, 3) : CommOp::recv(data, u8, 0);
      TN_TRY(r.comm.submit(r.stream, {op}));
      TN_TRY(r.expect(data, brought(u8, i, 0, 100 + i), "a message"));
    }
    return sum(r, 100);
  });
}

TEST_CASE("hosts: parts of a communicator, and groups of ranks, span hosts as it does") {
  NEEDS_HOSTS();
  together_on("aabb", [](Rank& r) -> Status {
    Communicator part = TN_TRY(r.comm.split(static_cast<int32_t>(r.rank % 2), 0));
    Rank in_part{.rank = part.rank(),
                 .size = part.size(),
                 .device = r.device,
                 .stream = r.stream,
                 .store = r.store,
                 .comm = part};
    TN_TRY(perform(in_part, part, r.stream, {.kind = TN_COMM_ALL_GATHER, .dtype = i32, .count = 5'000}));
    auto groups =
        TN_TRY(Hierarchy::create(r.comm, {.group = r.rank < 2 ? "a" : "b", .measured_bytes = 4'096}));
    for (const Route route : {Route::flat, Route::leaders, Route::sharded}) {
      const Buffer data = TN_TRY(r.uploaded(brought(i32, 9, r.rank, 30'000)));
      const CommOp op = CommOp::all_reduce(data, data, i32);
      TN_TRY(groups.submit(r.stream, {&op, 1}, route));
      TN_TRY(r.expect(data, all_reduced(i32, Reduction::sum, 9, 4, 30'000), "a sum through groups"));
    }
    return {};
  });
}

TEST_CASE("hosts: ranks of two hosts find each other through a store over TCP") {
  NEEDS_HOSTS();
  const Map map = "aabb";
  const auto outcomes = as_hosts(map, [&](uint32_t rank, const std::string& folder) -> Status {
    Runtime tenon = TN_TRY(runtime_on(map[rank]));
    Store board = TN_TRY(Store::in_folder(folder))
    , store;
    if (rank == 0) {
      store = TN_TRY(Store::serve("127.0.0.1:0", "a token"));
      TN_TRY(board.set("address", store.address()));
    } else {
      store = TN_TRY(Store::connect(TN_TRY(board.get("address")), "a token"));
    }
    Rank r = TN_TRY(join(TN_TRY(tenon.device("cpu")), store, rank, 4));
    return sum(r, 10'000);
  });
  for (const Status& outcome : outcomes) CHECK_MESSAGE(outcome.ok(), outcome.message());
}

TEST_CASE("hosts: another count or kind is TN_MISMATCH on all hosts, naming both sides") {
  NEEDS_HOSTS();
  const auto collective =
      outcomes_on("aab", {.timeout = patience}, [](Rank& r) { return sum(r, r.rank == 2 ? 17 : 16); });
  check_all(collective, TN_MISMATCH, "all_reduce sum f32 × 17");
  check_all(collective, TN_MISMATCH, "all_reduce sum f32 × 16");
  const auto message = outcomes_on("aab", {.timeout = patience}, [](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.buffer(400));
    if (r.rank == 0) TN_TRY(r.comm.submit(r.stream, {CommOp::send(data, f32, 2)}));
    if (r.rank == 2) TN_TRY(r.comm.submit(r.stream, {CommOp::recv(data, f64, 0)}));
    return sum(r, 10);
  });
  check_all(message, TN_MISMATCH, "sends 100 elements of f32 where rank 2");
}

TEST_CASE("hosts: an abort ends the waits of all hosts, and others go on without who aborted") {
  NEEDS_HOSTS();
  const auto start = Clock::now();
  const auto aborted = outcomes_on("aabb", {.timeout = std::chrono::seconds(60)}, [](Rank& r) -> Status {
    TN_TRY(r.comm.barrier(r.stream));
    TN_TRY(r.stream.sync());
    if (r.rank == 3) {
      TN_TRY(r.comm.abort());
      return r.comm.health();
    }
    const Status end = timed_sum(r, 1'000, "an abort");
    Rank again = TN_TRY(join(r.device, r.store, r.rank, 3, {.name = "survivors"}));
    TN_TRY(checked_sum(again, 10'000));
    return Status(end.error());
  });
  check_all(aborted, TN_ABORTED, "rank 3 aborted");
  CHECK(seconds_since(start) < 30);
}

namespace {

// Ranks 0 and 2 each wait for the other rank of their host, which does not come; then rank 0 aborts. [all ranks]
Status abort_from_another_thread(Rank& r, Communicator& comm, Timeout limit) {
  if (r.rank % 2 != 0) {
    TN_TRY(r.store.get("told/" + std::to_string(r.rank - 1), limit));
    return Status(TN_ABORTED, "rank 0 aborted, as others were told");
  }
  const Buffer data = TN_TRY(r.buffer(64));
  Status said;
  std::thread other([&] {
    if (r.rank == 2) said = r.store.set("waits", "x");
    if (r.rank == 0)
      said = r.store.get("waits", limit).ok() ? comm.abort() : Status(TN_INTERNAL, "no rank 2");
  });
  const auto start = Clock::now();
  Status end = comm.submit(r.stream, {CommOp::recv(data, f32, r.rank + 1)});
  if (end.ok()) end = r.stream.sync();
  other.join();
  std::printf("rank %u was told of an abort after %.3f s of %.0f\n", r.rank, seconds_since(start),
              std::chrono::duration<double>(limit).count());
  TN_TRY(std::move(said));
  TN_TRY(r.store.set("told/" + std::to_string(r.rank), "x"));
  return end;
}

// The same on two hosts; told long before the time is over.
void check_abort(const std::string& device, bool in_groups) {
  constexpr Timeout limit = std::chrono::seconds(20);
  const auto start = Clock::now();
  const auto told = as_hosts("aabb", [&](uint32_t rank, const std::string& folder) -> Status {
    Runtime tenon = TN_TRY(runtime_on("aabb"[rank]));
    const Store store = TN_TRY(Store::in_folder(folder));
    Rank r = TN_TRY(join(TN_TRY(tenon.device(device)), store, rank, 4, {.timeout = limit}));
    TN_TRY(sum(r, 16));
    if (!in_groups) return abort_from_another_thread(r, r.comm, limit);
    Hierarchy h = TN_TRY(
        Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2, .route = Route::leaders}));
    return abort_from_another_thread(r, h.communicator(), limit);
  });
  check_all(told, TN_ABORTED, "rank 0 aborted");
  CHECK(seconds_since(start) < 15);
}

}  // namespace

TEST_CASE("hosts: an abort from another thread reaches ranks that wait for nobody on the other host") {
  NEEDS_HOSTS();
  check_abort("cpu", false);
  check_abort("cpu", true);
}

TEST_CASE("hosts: an abort reaches ranks of a device that is staged through the host, too") {
  NEEDS_HOSTS();
  if (!std::filesystem::exists(std::filesystem::path(std::getenv("TENON_TEST_PLUGIN_DIR")) / "tenon-sim.so"))
    TENON_SKIP("sim", "the simulated device was not built; configure with it");
  check_abort("sim", false);
}

TEST_CASE("hosts: a rank that leaves is TN_PEER_LOST where it is waited for") {
  NEEDS_HOSTS();
  const auto left = outcomes_on("aabb", {.timeout = std::chrono::seconds(60)}, [](Rank& r) -> Status {
    TN_TRY(sum(r, 5'000));
    if (r.rank == 1) return r.comm.destroy();
    return timed_sum(r, 5'000, "a rank that left");
  });
  for (uint32_t r = 0; r < 4; ++r) {
    if (r == 1) continue;
    CHECK_MESSAGE(left[r].code() == TN_PEER_LOST, left[r].message());
    CHECK_MESSAGE(left[r].message().find("rank 1 ") != std::string_view::npos, left[r].message());
  }
  CHECK_MESSAGE(left[1].ok(), left[1].message());
}

TEST_CASE("hosts: a rank that does not come is TN_TIMEOUT on all hosts, by name") {
  NEEDS_HOSTS();
  const auto late = outcomes_on("aabb", {.timeout = patience}, [&](Rank& r) -> Status {
    TN_TRY(r.comm.barrier(r.stream));
    TN_TRY(r.stream.sync());
    const auto start = Clock::now();
    if (r.rank == 2) {
      for (const char* rank : {"0", "1", "3"})
        TN_TRY(r.store.get("told/" + std::string(rank), std::chrono::minutes(1)));
      return r.comm.health();
    }
    Status outcome = sum(r, 1'000);
    std::printf("rank %u was told after %.2f s\n", r.rank, seconds_since(start));
    TN_TRY(r.store.set("told/" + std::to_string(r.rank), "x"));
    return outcome;
  });
  check_all(late, TN_TIMEOUT, "rank 2 (process");
  const auto missing = as_hosts("ab", [&](uint32_t rank, const std::string& folder) -> Status {
    const auto joined = join_on(rank == 0 ? 'a' : 'b', folder, rank, 3, {.timeout = patience});
    return joined.ok() ? Status() : Status(Error(joined.error()));
  });
  check_all(missing, TN_TIMEOUT, "missing: 2");
}

TEST_CASE("hosts: without the engine's library creation is TN_UNSUPPORTED on all ranks, with the remedy") {
  const char* const built = std::getenv("TENON_TEST_PLUGIN_DIR");
  REQUIRE(built != nullptr);
  const tenon::test::TempFolder alone;
  for (const char* file : {"tenon-cpu.so", "tenon-cpu.toml"})
    std::filesystem::copy_file(std::filesystem::path(built) / file, alone / file);
  const auto outcomes = as_hosts("ab", [&](uint32_t rank, const std::string& folder) -> Status {
    setenv("TENON_TEST_PLUGIN_DIR", alone.path().c_str(), 1);
    const auto joined = join_on(rank == 0 ? 'a' : 'b', folder, rank, 2, {.timeout = patience});
    return joined.ok() ? Status() : Status(Error(joined.error()));
  });
  check_all(outcomes, TN_UNSUPPORTED, "install libgloo-dev");
}

TEST_CASE("hosts: a device says how its communicators reach other hosts, to who asks") {
  const auto outcomes = as_hosts("a", [&](uint32_t, const std::string&) -> Status {
    static std::string said;
    RuntimeOptions options = tenon::test::built_plugins({});
    options.log_level = LogLevel::info;
    options.log = [](LogLevel, std::string_view, std::string_view line) { said += std::string(line) + "\n"; };
    Runtime tenon = TN_TRY(Runtime::open(std::move(options)));
    const Device device = TN_TRY(tenon.device("cpu"));
    const char* const expected =
        hosts_can_meet() ? "communicators reach other hosts through gloo" : "install libgloo-dev";
    return said.find(expected) != std::string::npos ? Status() : Status(TN_INTERNAL, "said: " + said);
  });
  CHECK_MESSAGE(outcomes[0].ok(), outcomes[0].message());
}
