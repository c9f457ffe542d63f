// SPDX-License-Identifier: Apache-2.0
// Reading ahead: every sample once, batches in order, never more than there are slots, and an end at any time.
#include "loader/read_ahead.hpp"

#include <doctest/doctest.h>

#include <latch>
#include <map>
#include <set>

using namespace tenon;
using namespace tenon::loader;

namespace {

// What workers wrote, and what they wait for.
struct Bench {
  Order order;
  uint64_t batch;
  std::mutex mutex{};
  std::map<uint32_t, std::vector<uint64_t>> written{};  // by slot
  std::vector<uint32_t> opened{};

  explicit Bench(uint64_t samples, const LoaderOptions& options)
      : order(samples, options), batch(options.batch) {}

  ReadAhead::Work work() {
    return {.open =
                [this](uint32_t slot, const std::atomic<bool>&) {
                  const std::lock_guard lock(mutex);
                  opened.push_back(slot);
                  written[slot].assign(batch, UINT64_MAX);
                  return Status();
                },
            .read =
                [this](const Place& place) {
                  const std::lock_guard lock(mutex);
                  written[place.slot][place.place] = place.sample;
                  return Status();
                }};
  }
  std::vector<uint64_t> expected(Cursor at) {
    std::vector<uint64_t> out(batch);
    out.resize(order.samples(at, out).filled);
    return out;
  }
};

const uint32_t two[] = {0, 1}, three[] = {0, 1, 2};

Filled taken(ReadAhead& ahead) {
  auto filled = ahead.take();
  REQUIRE_MESSAGE(filled.ok(), filled.message());
  return *filled;
}

}  // namespace

TEST_CASE(
    "read_ahead: batches come in order, each with its samples, whatever the number of workers and slots") {
  for (const uint32_t workers : {1u, 2u, 5u}) {
    for (const uint32_t slots : {1u, 2u, 3u}) {
      Bench bench(101, {.batch = 8, .uneven = Uneven::join, .seed = 3});
      ReadAhead ahead(bench.order, 8, {}, slots, std::span(three).first(slots), bench.work());
      REQUIRE(ahead.start(workers).ok());
      Cursor at{};
      for (int i = 0; i < 60; ++i) {
        const Filled filled = taken(ahead);
        CHECK(filled.at == at);
        {
          const std::lock_guard lock(bench.mutex);
          std::vector<uint64_t> got = bench.written[filled.slot];
          got.resize(filled.share.filled);
          CHECK(got == bench.expected(at));
        }
        at = bench.order.after(at);
        ahead.give_back(filled.slot);
      }
    }
  }
}

TEST_CASE("read_ahead: begins anywhere") {
  Bench bench(100, {.batch = 10, .seed = 3});
  ReadAhead ahead(bench.order, 10, {4, 7}, 2, two, bench.work());
  REQUIRE(ahead.start(2).ok());
  for (const Cursor expected : {Cursor{4, 7}, Cursor{4, 8}, Cursor{4, 9}, Cursor{5, 0}}) {
    const Filled filled = taken(ahead);
    CHECK(filled.at == expected);
    ahead.give_back(filled.slot);
  }
}

TEST_CASE("read_ahead: opens no more batches than there are slots until one comes back") {
  Bench bench(100, {.batch = 4});
  ReadAhead ahead(bench.order, 4, {}, 3, two, bench.work());  // the third is with somebody
  REQUIRE(ahead.start(3).ok());
  const Filled first = taken(ahead), second = taken(ahead);
  CHECK(first.slot != second.slot);
  {
    const std::lock_guard lock(bench.mutex);
    CHECK(bench.opened.size() == 2);
  }
  ahead.give_back(2);
  CHECK(taken(ahead).slot == 2);
}

TEST_CASE("read_ahead: the failure of the first sample that has one comes after all batches before it") {
  for (int round = 0; round < 20; ++round) {
    Bench bench(100, {.batch = 10, .shuffle = false});
    ReadAhead::Work work = bench.work();
    work.read = [](const Place& place) {
      return place.sample == 24 || place.sample == 27 || place.sample == 31
                 ? Status(TN_NOT_FOUND, "sample " + std::to_string(place.sample))
                 : Status();
    };
    ReadAhead ahead(bench.order, 10, {}, 3, three, std::move(work));
    REQUIRE(ahead.start(4).ok());
    CHECK(taken(ahead).at == Cursor{0, 0});
    CHECK(taken(ahead).at == Cursor{0, 1});
    for (int again = 0; again < 2; ++again) {
      const auto failed = ahead.take();
      REQUIRE_FALSE(failed.ok());
      CHECK(failed.code() == TN_NOT_FOUND);
      CHECK(failed.message() == "sample 24");
    }
  }
}

TEST_CASE("read_ahead: a slot that cannot be opened is a failure of its batch") {
  Bench bench(100, {.batch = 10});
  ReadAhead::Work work = bench.work();
  work.open = [](uint32_t slot, const std::atomic<bool>&) {
    return slot == 1 ? Status(TN_DEVICE_LOST, "gone") : Status();
  };
  work.read = [](const Place&) { return Status(); };
  ReadAhead ahead(bench.order, 10, {}, 2, two, std::move(work));
  REQUIRE(ahead.start(2).ok());
  CHECK(taken(ahead).slot == 0);
  CHECK(ahead.take().code() == TN_DEVICE_LOST);
}

TEST_CASE("read_ahead: stops in the middle of a batch, of a wait for a slot, and before it began") {
  for (const bool in_open : {false, true}) {
    Bench bench(100, {.batch = 10});
    std::latch under_way(1);
    std::once_flag once;
    const auto wait_for_the_end = [&](const std::atomic<bool>& stopping) {
      std::call_once(once, [&] { under_way.count_down(); });
      while (!stopping) std::this_thread::yield();
    };
    const std::atomic<bool>* ending = nullptr;
    ReadAhead::Work work = bench.work();
    work.open = [&, open = work.open](uint32_t slot, const std::atomic<bool>& stopping) {
      ending = &stopping;
      if (in_open) wait_for_the_end(stopping);
      return open(slot, stopping);
    };
    work.read = [&](const Place&) {
      wait_for_the_end(*ending);
      return Status();
    };
    ReadAhead ahead(bench.order, 10, {}, 1, std::span(two).first(1), std::move(work));
    REQUIRE(ahead.start(3).ok());
    under_way.wait();
    CHECK(ahead.progress().find("step 0 of epoch 0") != std::string::npos);
    ahead.stop();
    CHECK(ahead.take().code() == TN_ABORTED);
  }
  Bench bench(100, {.batch = 10});
  ReadAhead never(bench.order, 10, {}, 2, two, bench.work());
  never.stop();
  CHECK(never.take().code() == TN_ABORTED);
}
