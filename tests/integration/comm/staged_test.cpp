// SPDX-License-Identifier: Apache-2.0
// staged_test.cpp: communicators for devices whose plugin has none: the cpu plugin's, through host memory.
//
// The profiles of the simulated device differ in what staging leans on: pinned memory, promises, addresses, host calls.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "together.hpp"

#include <atomic>
#include <chrono>

using namespace comm_test;

namespace {

// Without communicators of its own, where the profile has them.
Device simulated(const std::string& profile) {
  return comm_test::open(
      {.device = "sim", .options = {{"sim.profile", profile}, {"sim.comm_id_bytes", "0"}}});
}

// Random collectives of every kind are the reference's.
void random_collectives(const Device& device) {
  const uint64_t seed = tenon::test::seed();
  const auto rounds = tenon::test::full_or<uint64_t>("rounds", 25, 500);
  together(device, 3, [&](Rank& r) -> Status {
    std::mt19937_64 random(seed);
    for (uint64_t i = 0; i < rounds; ++i) TN_TRY(perform(r, r.comm, r.stream, draw(random, r.size, 20'000)));
    return {};
  });
}

// Messages, uneven counts and a factor on the device.
void messages(const Device& device) {
  together(device, 2, [](Rank& r) -> Status {
    const uint32_t other = 1 - r.rank;
    const Buffer out = TN_TRY(r.uploaded(brought(i32, 3, r.rank, 5'000)))
    , in = TN_TRY(r.buffer(20'000));
    TN_TRY(r.comm.submit(r.stream, {CommOp::send(out, i32, other), CommOp::recv(in, i32, other)}));
    TN_TRY(r.expect(in, brought(i32, 3, other, 5'000), "a message"));
    const uint64_t to[] = {r.rank + 1, 7}, from[] = {r.rank == 0 ? 1u : 7u, r.rank == 0 ? 2u : 7u};
    const uint64_t sent = to[0] + to[1], received = from[0] + from[1];
    const Buffer give = TN_TRY(r.uploaded(brought(u8, 4, r.rank, sent)))
    , take = TN_TRY(r.buffer(received));
    TN_TRY(r.comm.submit(r.stream, {CommOp::all_to_all(give, to, take, from, u8)}));
    const auto expected =
        blocks(2, [&](uint32_t q) { return brought(u8, 4, q, from[q], r.rank == 0 ? 0 : q + 1); });
    TN_TRY(r.expect(take, expected, "uneven counts"));
    std::vector<std::byte> half(4), sum(8);
    put(half.data(), 0.5f);
    for (uint64_t i = 0; i < 2; ++i)
      write(f32, &sum[i * 4], 0.5 * (value(f32, 5, 0, i) + value(f32, 5, 1, i)));
    const Buffer scale = TN_TRY(r.uploaded(half))
    , data = TN_TRY(r.uploaded(brought(f32, 5, r.rank, 2)));
    CommOp op = CommOp::all_reduce(data, data, f32, Reduction::premul_sum);
    TN_TRY(r.comm.submit(r.stream, {op.factor_from(scale), CommOp::barrier()}));
    return r.expect(data, sum, "a sum with factors");
  });
}

// What an operation does not use of its memory stays as it was.
void keeps_the_rest(const Device& device) {
  together(device, 2, [](Rank& r) -> Status {
    const Buffer from = TN_TRY(r.uploaded(brought(u8, 6, r.rank, 100)))
    , to = TN_TRY(r.uploaded(std::vector<std::byte>(160, std::byte{77})));
    CommOp op = CommOp::all_reduce(from, to, u8);
    TN_TRY(r.comm.submit(r.stream, {op}));
    std::vector<std::byte> expected = all_reduced(u8, Reduction::sum, 6, 2, 100);
    expected.resize(160, std::byte{77});
    return r.expect(to, expected, "a sum and what stands behind it");
  });
}

// Groups run in the order of their submits, on several streams, between other work.
void keeps_order(const Device& device) {
  together(device, 2, [](Rank& r) -> Status {
    Stream other = TN_TRY(r.device.stream());
    std::vector<double> one{1};
    const Buffer buffer = TN_TRY(r.buffer(8))
    , spare = TN_TRY(r.buffer(8));
    TN_TRY(r.stream.upload(buffer, one));
    for (int i = 0; i < 12; ++i) {
      Stream &line = i % 3 == 0 ? other : r.stream, &before = i % 3 == 0 ? r.stream : other;
      TN_TRY(line.wait(TN_TRY(before.record())));
      TN_TRY(r.comm.all_reduce(line, buffer, buffer, f64));
      TN_TRY(line.copy(spare, buffer));
      // What the collective gave is there already, and does not come later.
      TN_TRY(line.fill(buffer, 0));
      TN_TRY(line.copy(buffer, spare));
      TN_TRY(before.wait(TN_TRY(line.record())));
    }
    TN_TRY(other.sync());
    TN_TRY(r.stream.download(one, buffer.span()));
    TN_TRY(r.stream.sync());
    return one[0] == std::ldexp(1, 12) ? Status()
                                       : Status(TN_INTERNAL, "the sum is " + std::to_string(one[0]));
  });
}

// Where the plugin has promises, no submit waits for another rank.
void returns_at_once(const Device& device) {
  std::atomic<bool> returned{false};
  together(device, 2, [&](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, 1'000)));
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (r.rank == 1 && !returned) {
      if (std::chrono::steady_clock::now() > give_up)
        return Status(TN_INTERNAL, "rank 0 waits in its submit");
      std::this_thread::yield();
    }
    TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
    if (r.rank == 0) returned = true;
    return r.expect(data, all_reduced(f32, Reduction::sum, 1, 2, 1'000), "a sum");
  });
}

// An abort and a rank that does not come reach the device's stream, by name.
void tells_faults(const Device& device) {
  std::atomic<uint32_t> told{0};
  const auto ends = outcomes(device, {.timeout = std::chrono::milliseconds(500)}, 3, [&](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, 1'000)));
    while (r.rank == 2 && told < 2) std::this_thread::yield();
    const auto reduce = [&]() -> Status {
      TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
      return r.stream.sync();
    };
    Status end = r.rank == 2 ? r.comm.health() : reduce();
    ++told;
    return end;
  });
  for (const Status& end : ends) {
    CHECK_MESSAGE(end.code() == TN_TIMEOUT, end.message());
    CHECK_MESSAGE(end.message().find("rank 2") != std::string_view::npos, end.message());
  }
  const auto aborted = outcomes(device, {}, 2, [&](Rank& r) -> Status {
    if (r.rank == 1) {
      TN_TRY(r.comm.abort());
      return r.comm.health();
    }
    const Buffer data = TN_TRY(r.buffer(4'000));
    TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
    return r.stream.sync();
  });
  for (const Status& end : aborted) {
    CHECK_MESSAGE(end.code() == TN_ABORTED, end.message());
    CHECK_MESSAGE(end.message().find("rank 1 aborted") != std::string_view::npos, end.message());
  }
}

// A hierarchy works in host memory, whatever its route, and splits have their parts.
void carries_hierarchies(const Device& device) {
  together(device, 4, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(
        Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2, .route = Route::sharded}));
    if (h.placements()[r.rank].device != "sim:0") return Status(TN_INTERNAL, "ranks are on another device");
    for (const Route route : {Route::flat, Route::leaders, Route::sharded}) {
      const Buffer data = TN_TRY(r.uploaded(brought(f16, 9, r.rank, 1'001)));
      const CommOp op = CommOp::all_reduce(data, data, f16);
      TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
      TN_TRY(r.expect(data, all_reduced(f16, Reduction::sum, 9, 4, 1'001), "a sum"));
    }
    Communicator part = TN_TRY(r.comm.split(static_cast<int32_t>(r.rank % 2), 0));
    const Buffer bit = TN_TRY(r.uploaded(std::vector<std::byte>(1, std::byte(1 << r.rank))));
    TN_TRY(part.all_reduce(r.stream, bit, bit, u8));
    return r.expect(bit, std::vector<std::byte>(1, std::byte(r.rank % 2 == 0 ? 5 : 10)), "a part's sum");
  });
}

Device check_all(const std::string& profile) {
  Device device = simulated(profile);
  random_collectives(device);
  messages(device);
  keeps_the_rest(device);
  keeps_order(device);
  together(device, 2, [](Rank& r) {
    return sums_on_two_streams(
        r, [&](Stream& line, const tn_span& number) { return r.comm.all_reduce(line, number, number, f64); });
  });
  tells_faults(device);
  carries_hierarchies(device);
  return device;
}

}  // namespace

TEST_CASE("staged: collectives, order, faults and groups on profile plain, where no submit waits") {
  returns_at_once(check_all("plain"));
}

TEST_CASE("staged: collectives, order, faults and groups on profile ascend") { check_all("ascend"); }

TEST_CASE("staged: collectives, order, faults and groups on profile kunlun") { check_all("kunlun"); }

TEST_CASE("staged: collectives, order, faults and groups on profile mlu") { check_all("mlu"); }

TEST_CASE("staged: collectives, order, faults and groups on profile ipu") { check_all("ipu"); }

TEST_CASE("staged: collectives, order, faults and groups on profile ze, where no submit waits") {
  returns_at_once(check_all("ze"));
}

TEST_CASE("staged: the cause of a hierarchy's end is told on the device's stream") {
  std::atomic<uint32_t> in{0};
  const auto ends = outcomes(simulated("plain"), {}, 4, [&](Rank& r) -> Status {
    Hierarchy h = TN_TRY(
        Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2, .route = Route::leaders}));
    const Buffer data = TN_TRY(r.buffer(4'000));
    if (r.rank != 1) TN_TRY(h.communicator().all_reduce(r.stream, data, data, f32));
    ++in;
    while (in < 4) std::this_thread::yield();
    if (r.rank == 1) {
      TN_TRY(h.communicator().abort());
      return h.communicator().health();
    }
    return r.stream.sync();
  });
  for (const Status& end : ends) {
    CHECK_MESSAGE(end.code() == TN_ABORTED, end.message());
    CHECK_MESSAGE(end.message().find("rank 1 aborted") != std::string_view::npos, end.message());
  }
}

TEST_CASE("staged: the device says who carries its collectives") {
  const auto tenon = runtime({{"sim.profile", "plain"}});
  REQUIRE(tenon.ok());
  auto found = *tenon;
  const auto device = found.device("sim");
  REQUIRE(device.ok());
  const auto& said = device->emulated();
  CHECK(std::find(said.begin(), said.end(), "collectives: host-staged through cpu") != said.end());
}
