// SPDX-License-Identifier: Apache-2.0
// The queue that the consumer takes from: in order, with failures where they belong, and with an end to waiting.
#include "loader/feeder.hpp"

#include <doctest/doctest.h>

#include <latch>

using namespace tenon;
using namespace tenon::loader;

namespace {

const uint32_t slots[] = {0, 1};

// Batches of 10 samples, sent by `send`; workers wait for `gate`.
struct Bench {
  std::latch gate{1};
  ReadAhead ahead{Order(100, {.batch = 10}),
                  10,
                  {},
                  2,
                  slots,
                  {.open = [](uint32_t, const std::atomic<bool>&) { return Status(); },
                   .read =
                       [this](const Place&) {
                         gate.wait();
                         return Status();
                       }}};
  Feeder feeder;

  explicit Bench(Feeder::Send send) : feeder(ahead, 2, std::move(send)) {
    REQUIRE(ahead.start(2).ok());
    REQUIRE(feeder.start().ok());
  }
  ~Bench() { ahead.stop(); }
};

Status sent(const Filled&) { return {}; }

}  // namespace

TEST_CASE(
    "feeder: a batch that does not come in time is a timeout that says how far it is, and comes later") {
  Bench bench(sent);
  CHECK_FALSE(bench.feeder.ready());
  const auto late = bench.feeder.next(std::chrono::milliseconds(1));
  CHECK(late.code() == TN_TIMEOUT);
  CHECK(late.message().find("no batch within 1.00 ms, at step 0 of epoch 0: ") != std::string_view::npos);
  CHECK(bench.feeder.next(Timeout(0)).code() == TN_TIMEOUT);
  bench.gate.count_down();
  const auto first = bench.feeder.next(forever);
  REQUIRE(first.ok());
  CHECK(first->at == Cursor{0, 0});
}

TEST_CASE("feeder: a failure to send comes behind the batches that were sent, and stays") {
  Bench bench(
      [](const Filled& filled) { return filled.at.step == 1 ? Status(TN_DEVICE_LOST, "gone") : Status(); });
  bench.gate.count_down();
  CHECK(bench.feeder.next(forever).ok());
  CHECK(bench.feeder.next(forever).code() == TN_DEVICE_LOST);
  CHECK(bench.feeder.ready());
  CHECK(bench.feeder.next(forever).message() == "gone");
}
