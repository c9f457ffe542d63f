// SPDX-License-Identifier: Apache-2.0
// fakecuda_order_test.cpp: the adversary runs work late and in an order that only the seed knows, and never before what
// it was told to wait for; so a wait that is missing shows.
#include "program.hpp"
#include "support/seed.hpp"

#include <atomic>
#include <set>

using namespace cuda_test;

namespace {

// Nothing runs unless it is demanded, however slow this machine is.
std::string adversary(uint64_t seed) { return "idle_ms=3600000,seed=" + std::to_string(seed); }

constexpr size_t racers = 12;

// Streams that race for one word: each writes its number, then keeps what it finds. What they keep tells the order.
std::vector<uint32_t> race(uint64_t seed) {
  const Program program(adversary(seed));
  const Memory memory;
  const Pinned<uint32_t> kept(racers);
  for (uint32_t i = 0; i < racers; ++i) {
    const CUstream stream = make_stream();
    must(cu().cuMemsetD32Async(memory, i, 1, stream));
    must(cu().cuMemcpyAsync(kept.address(i), memory, sizeof(uint32_t), stream));
  }
  must(cu().cuCtxSynchronize());
  std::vector<uint32_t> out;
  for (size_t i = 0; i < racers; ++i) out.push_back(kept[i]);
  return out;
}

// One stream writes, another reads; between them lies the only wait of the program.
uint32_t hand_over(const std::string& settings) {
  const Program program(settings);
  const CUstream writer = make_stream(), reader = make_stream();
  const Memory memory;
  const Pinned<uint32_t> seen(1);
  must(cu().cuMemsetD32Async(memory, 42, 1, writer));
  wait(reader, record(writer));
  must(cu().cuMemcpyAsync(seen.address(), memory, sizeof(uint32_t), reader));
  sync(reader);
  const uint32_t out = seen[0];
  sync(writer);
  return out;
}

}  // namespace

TEST_CASE("order: one seed gives one order") {
  for (const uint64_t seed : {1, 2, 77}) CHECK(race(seed) == race(seed));
}

TEST_CASE("order: seeds differ in the order of independent streams") {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) orders.insert(race(seed));
  CHECK(orders.size() >= 15);
}

TEST_CASE("order: a declared wait holds for every seed") {
  const uint64_t first = tenon::test::seed() % 1'000'000;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    CAPTURE(seed);
    CHECK(hand_over(adversary(seed)) == 42);
  }
}

TEST_CASE("order: a wait that is dropped gives wrong data for nearly every seed") {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed)
    if (hand_over(adversary(seed) + ",drop_wait=1") != 42) ++wrong;
  MESSAGE("wrong data for ", wrong, " of 100 seeds");
  CHECK(wrong >= 50);
}

TEST_CASE("order: nothing runs until somebody asks twice or waits") {
  const Program program(adversary(1));
  const CUstream stream = make_stream();
  std::atomic<bool> ran{false};
  const auto note = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); };
  must(cu().cuLaunchHostFunc(stream, note, &ran));
  const CUevent event = record(stream);
  CHECK(cu().cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK_FALSE(ran);
  while (cu().cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
  }
  CHECK(ran);
}

TEST_CASE("order: work that nobody asks for runs a while later") {
  const Program program("seed=1,idle_ms=1");
  std::atomic<bool> ran{false};
  const auto note = [](void* flag) {
    static_cast<std::atomic<bool>*>(flag)->store(true);
    static_cast<std::atomic<bool>*>(flag)->notify_all();
  };
  must(cu().cuLaunchHostFunc(make_stream(), note, &ran));
  ran.wait(false);  // the test's deadline is the only one
  CHECK(ran);
}

TEST_CASE("order: a download is not there before it was waited for") {
  const Program program(adversary(3));
  const CUstream stream = make_stream(), other = make_stream();
  const Memory memory;
  const Pinned<uint32_t> seen(1);
  seen[0] = 0;
  must(cu().cuMemsetD32Async(memory, 6, 1, stream));
  must(cu().cuMemcpyAsync(seen.address(), memory, sizeof(uint32_t), stream));
  CHECK(seen[0] == 0);
  sync(stream);
  CHECK(seen[0] == 6);
  sync(other);
}
