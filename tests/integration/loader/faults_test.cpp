// SPDX-License-Identifier: Apache-2.0
// What goes wrong is told by next(), at its place and with its name; and a loader can be stopped at any time.
#include "integration/loader/world.hpp"
#include "support/seed.hpp"

#include <atomic>
#include <latch>
#include <random>
#include <stdexcept>

using namespace tenon;
using namespace tenon::test;

namespace {

// Batches of 4 of 40 samples in their order, of which sample 13 is read by `read`.
Loader with_sample_13(World& w, const Dataset::Read& read) {
  Dataset data = numbered(40);
  data.read = [well = data.read, read](uint64_t sample, Dataset::Bytes to) {
    return sample == 13 ? read(sample, to) : well(sample, to);
  };
  return must(Loader::open(w.device, std::move(data), {.batch = 4, .shuffle = false, .workers = 3}));
}

void fails_at_step_3(World& w, Loader& loader, int32_t code, const char* words) {
  for (int step = 0; step < 3; ++step) CHECK(must(loader.next(w.stream)).samples() == 4);
  for (int again = 0; again < 2; ++again) {
    const auto failed = loader.next(w.stream);
    CHECK(failed.code() == code);
    CHECK_HAS(std::string(failed.message()), words);
  }
}

}  // namespace

TEST_CASE(
    "faults: the failure of a sample comes behind the batches before it, with its number, and a seek goes "
    "on") {
  World w;
  std::atomic<bool> broken{true};
  Loader loader = with_sample_13(w, [&](uint64_t, Dataset::Bytes to) {
    if (broken) return Status(TN_NOT_FOUND, "thirteen.png is gone");
    std::fill(to[0].begin(), to[0].end(), std::byte{0});
    std::fill(to[1].begin(), to[1].end(), std::byte{0});
    return Status();
  });
  fails_at_step_3(w, loader, TN_NOT_FOUND, "loader: sample 13: thirteen.png is gone");
  must(loader.seek(0, 4));
  CHECK(must(loader.next(w.stream)).step() == 4);
  broken = false;
  must(loader.seek(0, 3));
  const Batch batch = must(loader.next(w.stream));
  CHECK(samples_of(w.stream, batch) == std::vector<int32_t>{12, 0, 14, 15});
}

TEST_CASE("faults: an exception is a failure, whatever was thrown") {
  World w;
  Loader error =
      with_sample_13(w, [](uint64_t, Dataset::Bytes) -> Status { throw std::runtime_error("no such file"); });
  fails_at_step_3(w, error, TN_INTERNAL, "loader: sample 13: Dataset::read threw: no such file");
  Loader other = with_sample_13(w, [](uint64_t, Dataset::Bytes) -> Status { throw 13; });
  fails_at_step_3(w, other, TN_INTERNAL, "loader: sample 13: Dataset::read threw what is no std::exception");
}

TEST_CASE("faults: a batch that does not come in time is a timeout, is counted as waiting, and comes later") {
  World w;
  std::latch gate(1);
  Dataset data = numbered(40);
  data.read = [&gate, well = data.read](uint64_t sample, Dataset::Bytes to) {
    if (sample >= 8) gate.wait();
    return well(sample, to);
  };
  constexpr Timeout patience = std::chrono::milliseconds(50);
  Loader loader = must(Loader::open(w.device, std::move(data),
                                    {.batch = 8, .shuffle = false, .depth = 2, .timeout = patience}));
  auto first = loader.next(w.stream);
  while (first.code() == TN_TIMEOUT) first = loader.next(w.stream);  // a machine may be slow
  must(first.ok() ? Status() : Status(first.error()));
  must(first->done());
  const auto late = loader.next(w.stream);
  CHECK(late.code() == TN_TIMEOUT);
  CHECK_HAS(std::string(late.message()),
            "loader: no batch within 50.00 ms, at step 1 of epoch 0: 0 of 8 samples read");
  gate.count_down();
  auto second = loader.next(w.stream);
  while (second.code() == TN_TIMEOUT) second = loader.next(w.stream);
  CHECK(samples_of(w.stream, *second).front() == 8);
  const LoaderFigures figures = loader.figures();
  CHECK(figures.batches == 2);
  CHECK(figures.late == 1);
  CHECK(figures.waited >= patience);
  CHECK(figures.lasted >= figures.waited);
  CHECK(figures.read > Timeout(0));
}

TEST_CASE("faults: figures say whether training waits for the loader") {
  CHECK(LoaderFigures{.waited = Timeout(60), .lasted = Timeout(1000)}.loader_bound());
  CHECK_FALSE(LoaderFigures{.waited = Timeout(40), .lasted = Timeout(1000)}.loader_bound());
  CHECK(LoaderFigures{.waited = Timeout(250), .lasted = Timeout(1000)}.waiting() == 0.25);
  CHECK(LoaderFigures{}.waiting() == 0);
}

TEST_CASE("faults: holding every batch is an error and no hang, and one given back mends it") {
  World w;
  Loader loader = must(Loader::open(w.device, numbered(40), {.batch = 4, .depth = 2}));
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(must(loader.next(w.stream)));
  const auto none = loader.next(w.stream);
  CHECK(none.code() == TN_INVALID);
  CHECK_HAS(std::string(none.message()), "all 3 batches are held: drop one that was used");
  held.erase(held.begin());
  CHECK(must(loader.next(w.stream)).step() == 3);
}

TEST_CASE("faults: options and data sets that cannot be are refused before anything is read") {
  World w;
  CHECK(Loader::open(w.device, numbered(0), {}).code() == TN_INVALID);
  CHECK(Loader::open(w.device, numbered(4), {.batch = 0}).code() == TN_INVALID);
  CHECK(Loader::open(w.device, numbered(4), {.image = ImageOptions{}}).code() == TN_INVALID);
}

TEST_CASE("faults: a loader ends at any moment, and so do those of its batches that are held") {
  World w;
  std::mt19937_64 random = generator();
  for (int round = 0; round < 30; ++round) {
    Loader loader = must(Loader::open(w.device, numbered(100),
                                      {.batch = 1 + random() % 16,
                                       .depth = static_cast<uint32_t>(1 + random() % 3),
                                       .workers = static_cast<uint32_t>(1 + random() % 4)}));
    std::vector<Batch> held;
    for (uint64_t i = random() % 8; i > 0; --i) {
      Batch batch = must(loader.next(w.stream));
      if (random() % 3 == 0 && held.empty()) held.push_back(std::move(batch));
      if (random() % 8 == 0) must(loader.seek(random() % 3, random() % loader.steps()));
    }
    if (random() % 2 == 0) held.clear();
    loader = Loader();
  }
}
