// SPDX-License-Identifier: Apache-2.0
// forged_test.cpp: a rank that has lost count of its groups, which no submit can bring about, is told and does no harm.
//
// The number that a rank announces is found in the memory that ranks share, by its value, and changed there.
// Invariant: it is changed after it was announced and before the other rank reads it.
#include "processes.hpp"
#include "system_figures.hpp"

#include <atomic>

using namespace comm_test;

namespace {

// What stands at the head of a rank's announcement of `number` groups, of which this has one operation; nullptr: nothing does.
uint64_t* find_announcement(uint64_t number) {
  constexpr size_t line = 64;
  const auto [begin, end] = range_of("tenon communicator");
  for (uintptr_t at = begin; at < end; at += line) {
    auto* const words = reinterpret_cast<uint64_t*>(at);
    if (__atomic_load_n(words, __ATOMIC_RELAXED) == number &&
        __atomic_load_n(words + 1, __ATOMIC_RELAXED) == 1)
      return words;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("forged: ranks that count their groups differently are TN_MISMATCH, naming both numbers") {
  const auto children = start(1, [&](uint32_t) -> Status {
    constexpr uint64_t groups = 1'234;
    const Store store = Store::in_process();
    Runtime tenon = TN_TRY(comm_test::runtime());
    const Device device = TN_TRY(tenon.device("cpu"));
    std::atomic<bool> announced{false};
    const auto told = as_threads(2, [&](uint32_t rank) -> Status {
      Rank r = TN_TRY(join(device, store, rank, 2, {.timeout = std::chrono::seconds(20)}));
      for (uint64_t i = 1; i < groups; ++i) TN_TRY(r.comm.barrier(r.stream));
      TN_TRY(r.stream.sync());
      while (rank == 0 && !announced) std::this_thread::yield();
      if (rank == 1) {
        TN_TRY(r.comm.barrier(r.stream));
        uint64_t* found = nullptr;
        while ((found = find_announcement(groups)) == nullptr) std::this_thread::yield();
        *found += 1;
        announced = true;
        return r.stream.sync();
      }
      TN_TRY(r.comm.barrier(r.stream));
      return r.stream.sync();
    });
    for (const Status& one : told) {
      const bool both = one.message().find("at group 1234") != std::string_view::npos &&
                        one.message().find("at group 1235") != std::string_view::npos;
      if (one.code() != TN_MISMATCH || !both)
        return Status(TN_INTERNAL, "got: " + std::string(one.message()));
    }
    return {};
  });
  CHECK(ended(children[0]) == 0);
}
