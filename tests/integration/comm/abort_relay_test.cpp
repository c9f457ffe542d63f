// SPDX-License-Identifier: Apache-2.0
// abort_relay_test.cpp: an abort reaches ranks that nothing but the store connects.
//
// The communicators here are pairs of the cpu plugin: a rank, and one that never comes. So work does not end by itself, and the plugin
// carries nothing from one rank to another. Invariant: what a rank is told of another it was told by the core.
#include "detection.hpp"
#include "ranks.hpp"

#include "runtime/device_state.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>

using namespace comm_test;

namespace {

constexpr Timeout limit = std::chrono::seconds(20);

// The device's own tables, and those who never come.
struct Apart {
  const tn_comm_api* own = nullptr;
  std::mutex mutex{};
  std::vector<tn_comm*> absent{};
};
Apart& apart() {
  static Apart* const all = new Apart;
  return *all;
}

int32_t create(tn_device* device, uint32_t, uint32_t, const void*, uint64_t bytes,
               const tn_comm_options* options, tn_comm** out, tn_error* error) {
  const tn_comm_api& own = *apart().own;
  std::vector<char> id(bytes);
  tn_comm_options later = *options;
  later.flags |= TN_COMM_NON_BLOCKING;
  tn_comm* other = nullptr;
  int32_t code = own.make_id(device, id.data(), bytes, error);
  if (code == TN_OK) code = own.create(device, 1, 2, id.data(), bytes, &later, &other, error);
  if (code == TN_OK) code = own.create(device, 0, 2, id.data(), bytes, options, out, error);
  const std::lock_guard lock(apart().mutex);
  if (other != nullptr) apart().absent.push_back(other);
  return code;
}

// Nobody waits for a broadcast here.
int32_t submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t, tn_error* error) {
  if (ops->kind == TN_COMM_BROADCAST) return TN_OK;
  const CommOp barrier = CommOp::barrier();
  return apart().own->submit(comm, stream, &barrier.abi, 1, error);
}

// A cpu device with such communicators.
class PairsOnly {
 public:
  PairsOnly() {
    Result<Runtime> opened = comm_test::runtime();
    REQUIRE_MESSAGE(opened.ok(), opened.message());
    tenon_ = *opened;
    Result<Device> cpu = tenon_.device("cpu");
    REQUIRE_MESSAGE(cpu.ok(), cpu.message());
    plugin_ = *cpu->state()->plugin;
    apart().own = plugin_.comm;
    table_ = *plugin_.comm;
    table_.create = create;
    table_.submit = submit;
    plugin_.comm = &table_;
    auto made =
        tenon::runtime::open_device({.plugin = &plugin_, .name = "apart:0", .log = cpu->state()->log});
    REQUIRE_MESSAGE(made.ok(), made.message());
    device = Device(*made);
  }
  ~PairsOnly() {
    for (tn_comm* const comm : std::exchange(apart().absent, {})) apart().own->destroy(comm, 0, nullptr);
  }
  Result<Rank> rank(uint32_t r, CommOptions options = {.timeout = limit}) {
    return join(device, store, r, 4, std::move(options));
  }

 private:
  Runtime tenon_{};
  tn_plugin plugin_{};
  tn_comm_api table_{};

 public:
  Device device;
  Store store = Store::in_process();
};

}  // namespace

TEST_CASE("abort relay: every rank that waits is told who aborted, where only the store connects them") {
  PairsOnly world;
  std::atomic<uint32_t> in{0};
  Detection abort;
  const auto told = as_threads(4, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank));
    TN_TRY(r.comm.barrier(r.stream));
    ++in;
    Status said;
    std::thread other([&] {
      while (in < 4) std::this_thread::yield();
      if (rank == 3) abort.begin(), said = r.comm.abort();
    });
    const Status end = r.stream.sync(limit);
    if (rank != 3) abort.told();
    other.join();
    if (!said.ok()) return Status(said.error());
    if (end.ok() || r.comm.health().code() != TN_ABORTED || r.comm.barrier(r.stream).code() != TN_ABORTED)
      return Status(TN_INTERNAL, "health and submit say nothing of it");
    return Status(end.error());
  });
  abort.print("abort");
  CHECK(abort.seconds() < 5);  // of 20, on a busy machine
  for (const Status& outcome : told) {
    CHECK_MESSAGE(outcome.code() == TN_ABORTED, outcome.message());
    CHECK_MESSAGE(outcome.message().find("rank 3 aborted") != std::string_view::npos, outcome.message());
  }
}

TEST_CASE("abort relay: a stream that goes on hides none that stands still") {
  PairsOnly world;
  std::atomic<uint32_t> in{0};
  std::atomic<bool> over{false};
  Detection abort;
  const auto told = as_threads(2, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank));
    Stream busy = TN_TRY(world.device.stream({.name = "busy"}));
    const Buffer data = TN_TRY(world.device.allocate(busy, 64));
    TN_TRY(r.comm.broadcast(busy, data, f32, 0));
    TN_TRY(r.comm.barrier(r.stream));
    if (rank == 1) {
      while (in < 10) std::this_thread::yield();
      abort.begin();
      TN_TRY(r.comm.abort());
      return r.stream.sync(limit);
    }
    Status went;
    std::thread works([&] {
      while (went.ok() && !over) went = busy.fill(data), went = went.ok() ? busy.sync(limit) : went, ++in;
    });
    const Status end = r.stream.sync(limit);
    abort.told();
    over = true;
    works.join();
    if (!went.ok()) return Status(TN_INTERNAL, "the busy stream failed: " + std::string(went.message()));
    return end;
  });
  abort.print("abort, beside a stream that goes on,");
  CHECK(abort.seconds() < 5);  // of 20, on a busy machine
  for (const Status& outcome : told) CHECK_MESSAGE(outcome.code() == TN_ABORTED, outcome.message());
}

TEST_CASE("abort relay: of two ranks that abort the first one is named by all") {
  PairsOnly world;
  std::atomic<uint32_t> in{0};
  const auto told = as_threads(4, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank));
    TN_TRY(r.comm.barrier(r.stream));
    ++in;
    while (in < 4) std::this_thread::yield();
    if (rank >= 2) TN_TRY(r.comm.abort());
    return r.stream.sync(limit);
  });
  const bool second = told[0].message().find("rank 2 aborted") != std::string_view::npos;
  for (const Status& outcome : told) {
    CHECK_MESSAGE(outcome.code() == TN_ABORTED, outcome.message());
    CHECK_MESSAGE(
        outcome.message().find(second ? "rank 2 aborted" : "rank 3 aborted") != std::string_view::npos,
        outcome.message());
  }
}

TEST_CASE("abort relay: a communicator that failed has its own cause, whoever aborts it then") {
  PairsOnly world;
  std::atomic<uint32_t> in{0};
  const auto told = as_threads(2, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank, {.timeout = std::chrono::milliseconds(rank == 0 ? 100 : 1'000)}));
    TN_TRY(r.comm.barrier(r.stream));
    ++in;
    while (in < 2) std::this_thread::yield();
    const Status end = r.stream.sync(limit);
    TN_TRY(r.comm.abort());
    return Status(end.error());
  });
  for (const Status& outcome : told) CHECK_MESSAGE(outcome.code() == TN_TIMEOUT, outcome.message());
}
