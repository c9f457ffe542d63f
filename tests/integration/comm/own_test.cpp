// SPDX-License-Identifier: Apache-2.0
// own_test.cpp: communicators of a device's own plugin that is not the cpu's: ids of another length, fewer types and
// reductions, a scheduler that nobody else knows.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "together.hpp"

#include <atomic>
#include <cmath>

using namespace comm_test;

namespace {

Device simulated(const char* id_bytes = "4108") {
  return comm_test::open(
      {.device = "sim", .options = {{"sim.profile", "ascend"}, {"sim.comm_id_bytes", id_bytes}}});
}

// What the device's limits list.
bool taken(const Task& task) {
  const bool moved_only = task.dtype == u8 || task.dtype == u16 || task.dtype == u32 || task.dtype == u64;
  const bool reduces =
      task.kind == TN_COMM_ALL_REDUCE || task.kind == TN_COMM_REDUCE || task.kind == TN_COMM_REDUCE_SCATTER;
  const bool known = task.how == Reduction::sum || task.how == Reduction::prod ||
                     task.how == Reduction::min || task.how == Reduction::max;
  return task.dtype != f64 && task.dtype != tenon::boolean && (!reduces || (known && !moved_only));
}

Status summed(Rank& r, Communicator& comm) {
  const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, 1'000)));
  TN_TRY(comm.all_reduce(r.stream, data, data, f32));
  return r.expect(data, all_reduced(f32, Reduction::sum, 1, r.size, 1'000), "a sum");
}

}  // namespace

TEST_CASE("own: nothing is staged, whatever the length of an id") {
  for (const char* const bytes : {"32", "128", "4108", "70000"}) {
    CAPTURE(bytes);
    const Device device = simulated(bytes);
    for (const std::string& said : device.emulated())
      CHECK_MESSAGE(said.find("collectives") == std::string::npos, said);
    together(device, 3, [](Rank& r) { return summed(r, r.comm); });
  }
}

TEST_CASE("own: random collectives are the reference's") {
  const uint64_t seed = tenon::test::seed();
  const auto rounds = tenon::test::full_or<uint64_t>("rounds", 60, 2'000);
  for (const uint32_t size : {1u, 2u, 5u}) {
    together(simulated(), size, [&](Rank& r) -> Status {
      std::mt19937_64 random(seed);
      for (uint64_t i = 0; i < rounds;) {
        const Task task = draw(random, r.size, 20'000);
        if (!taken(task)) continue;
        TN_TRY(perform(r, r.comm, r.stream, task));
        ++i;
      }
      return {};
    });
  }
}

TEST_CASE("own: what the plugin does not take is refused by name, and never cast") {
  together(simulated(), 2, [](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.buffer(800));
    const auto refused = [&](DType dtype, Reduction how) -> Status {
      const Status said = r.comm.all_reduce(r.stream, data, data, dtype, how);
      return said.code() == TN_UNSUPPORTED
                 ? Status()
                 : Status(TN_INTERNAL, "not refused: " + std::string(said.message()));
    };
    TN_TRY(refused(f64, Reduction::sum));
    TN_TRY(refused(u8, Reduction::sum));
    TN_TRY(refused(f32, Reduction::avg));
    return summed(r, r.comm);
  });
}

TEST_CASE("own: parts are made anew, and hierarchies are built of them") {
  together(simulated(), 4, [](Rank& r) -> Status {
    Communicator part = TN_TRY(r.comm.split(static_cast<int32_t>(r.rank % 2), 0));
    const Buffer ranks = TN_TRY(r.uploaded(std::vector<std::byte>(1, std::byte(1 << r.rank))));
    TN_TRY(part.all_reduce(r.stream, ranks, ranks, tenon::i8));
    TN_TRY(r.expect(ranks, std::vector<std::byte>(1, std::byte(r.rank % 2 == 0 ? 5 : 10)), "a part's sum"));
    Hierarchy h = TN_TRY(Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2}));
    for (const Route route : {Route::flat, Route::leaders, Route::sharded}) {
      const Buffer data = TN_TRY(r.uploaded(brought(f16, 9, r.rank, 1'001)));
      const CommOp op = CommOp::all_reduce(data, data, f16);
      TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
      TN_TRY(r.expect(data, all_reduced(f16, Reduction::sum, 9, 4, 1'001), "a sum"));
    }
    return {};
  });
}

TEST_CASE("own: a rank that does not come, and one that aborts, are named on the stream") {
  std::atomic<uint32_t> told{0};
  const auto late =
      outcomes(simulated(), {.timeout = std::chrono::milliseconds(400)}, 3, [&](Rank& r) -> Status {
        while (r.rank == 2 && told < 2) std::this_thread::yield();
        Status end = r.rank == 2 ? r.comm.health() : summed(r, r.comm);
        ++told;
        return end;
      });
  for (const Status& end : late) {
    CHECK_MESSAGE(end.code() == TN_TIMEOUT, end.message());
    CHECK_MESSAGE(end.message().find("rank 2") != std::string_view::npos, end.message());
  }
  const auto aborted = outcomes(simulated(), {}, 2, [&](Rank& r) -> Status {
    if (r.rank == 0) return summed(r, r.comm);
    TN_TRY(r.comm.abort());
    return r.comm.health();
  });
  for (const Status& end : aborted) {
    CHECK_MESSAGE(end.code() == TN_ABORTED, end.message());
    CHECK_MESSAGE(end.message().find("rank 1 aborted") != std::string_view::npos, end.message());
  }
}

TEST_CASE("own: a circle of three messages is told to all by the core, as the plugin sees none") {
  const auto told = outcomes(simulated(), {}, 3, [](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.buffer(16));
    TN_TRY(r.comm.submit(r.stream, {CommOp::recv(data, f32, (r.rank + 2) % 3)}));
    return r.stream.sync();
  });
  for (const Status& end : told) {
    CHECK_MESSAGE(end.code() == TN_MISMATCH, end.message());
    CHECK_MESSAGE(end.message().find("rank 1 waits for rank 0 in group 1") != std::string_view::npos,
                  end.message());
  }
}
