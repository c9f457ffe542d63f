// SPDX-License-Identifier: Apache-2.0
// The pool under threads: live buffers never overlap, whoever allocates, uses and drops them.
#include "fake_plugin.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

constexpr size_t thread_count = 8;

// A live buffer, with its owner's mark at both ends: a second owner of the same bytes would overwrite it.
struct Marked {
  Buffer buffer;
  uint64_t mark = 0;

  void write(uint64_t value) {
    mark = value;
    std::memcpy(begin(), &mark, sizeof mark);
    std::memcpy(end() - sizeof mark, &mark, sizeof mark);
  }
  bool intact() const {
    return std::memcmp(begin(), &mark, sizeof mark) == 0 &&
           std::memcmp(end() - sizeof mark, &mark, sizeof mark) == 0;
  }
  char* begin() const { return reinterpret_cast<char*>(static_cast<uintptr_t>(*buffer.address())); }
  char* end() const { return begin() + buffer.bytes(); }
};

// Where threads leave buffers for each other.
struct Mailbox {
  std::mutex mutex;
  std::vector<Marked> letters;
};

struct Stress {
  explicit Stress(uint64_t memory_bytes) : plugin({.memory_bytes = memory_bytes}) {
    for (size_t i = 0; i < thread_count; ++i) own.push_back(*device.stream());
    for (size_t i = 0; i < thread_count / 2; ++i) shared.push_back(*device.stream());
  }
  FakePlugin plugin;
  Device device = plugin.open();
  std::vector<Stream> own;     // one thread each
  std::vector<Stream> shared;  // allocation only: any thread
  Mailbox mailbox;
  std::atomic<uint64_t> marks{1}, broken{0}, refused{0}, done{0};

  void run(size_t thread, uint64_t seed, uint64_t operations);
  void keep(std::vector<Marked>& mine, std::mt19937_64& random, size_t thread);
  void hand_over(std::vector<Marked>& mine, std::mt19937_64& random, size_t thread);
};

uint64_t random_size(std::mt19937_64& random) {
  const uint64_t kind = random() % 100;
  if (kind < 80) return 16 + random() % 8192;
  if (kind < 98) return 16 + random() % (256u << 10);
  return 16 + random() % (5u << 20);
}

void Stress::keep(std::vector<Marked>& mine, std::mt19937_64& random, size_t thread) {
  Stream& stream = random() % 2 != 0 ? own[thread] : shared[random() % shared.size()];
  auto buffer = device.allocate(stream, random_size(random));
  if (!buffer.ok()) {
    ++refused;
    mine.clear();
    return;
  }
  mine.push_back({std::move(*buffer)});
  mine.back().write(marks++);
}

// Leaves one buffer to others and takes one of theirs, used on this thread's stream.
void Stress::hand_over(std::vector<Marked>& mine, std::mt19937_64& random, size_t thread) {
  Marked taken;
  {
    const std::lock_guard lock(mailbox.mutex);
    if (!mine.empty()) {
      mailbox.letters.push_back(std::move(mine.back()));
      mine.pop_back();
    }
    if (mailbox.letters.size() < 2) return;
    std::swap(mailbox.letters[random() % mailbox.letters.size()], mailbox.letters.back());
    taken = std::move(mailbox.letters.back());
    mailbox.letters.pop_back();
  }
  if (!taken.intact()) ++broken;
  if (random() % 2 != 0 && !taken.buffer.used_on(own[thread]).ok()) ++broken;
}

void Stress::run(size_t thread, uint64_t seed, uint64_t operations) {
  std::mt19937_64 random(seed + thread);
  std::vector<Marked> mine;
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t action = random() % 16;
    if (action < 7 && mine.size() < 32) {
      keep(mine, random, thread);
    } else if (action < 9) {
      hand_over(mine, random, thread);
    } else if (!mine.empty()) {
      std::swap(mine[random() % mine.size()], mine.back());
      if (!mine.back().intact()) ++broken;
      mine.pop_back();
    }
    if (random() % 4096 == 0) REQUIRE(device.trim(random() % (4u << 20)).ok());
    if (random() % 4096 == 0)
      REQUIRE(device.pool_stats().used_bytes <= device.pool_stats().peak_reserved_bytes);
  }
  done += operations;
}

void stress(uint64_t memory_bytes) {
  const uint64_t operations = test::full_or("operations", 100'000, 2'000'000);
  const uint64_t seed = test::seed();
  Stress all(memory_bytes);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < thread_count; ++i)
    threads.emplace_back([&, i] { all.run(i, seed, operations / thread_count); });
  for (std::thread& thread : threads) thread.join();
  CHECK(all.broken == 0);
  CHECK(all.done == operations);
  MESSAGE("refused: " << all.refused.load());
  all.mailbox.letters.clear();
  const PoolStats stats = all.device.pool_stats();
  CHECK(stats.used_bytes == 0);
  CHECK(stats.rounded_bytes == 0);
  REQUIRE(all.device.trim().ok());
  CHECK(all.plugin.used_bytes() == 0);
}

}  // namespace

TEST_CASE("pool under threads: no two live buffers overlap") { stress(1u << 30); }

TEST_CASE("pool under threads: the same where memory is short") { stress(48u << 20); }

TEST_CASE("pool under threads: streams come and go while their buffers live on") {
  const uint64_t rounds = test::full_or("streams", 2'000, 40'000);
  FakePlugin plugin;
  {
    Device device = plugin.open();
    Mailbox mailbox;
    std::atomic<uint64_t> broken{0};
    const auto run = [&](size_t thread) {
      std::mt19937_64 random(thread + 1);
      for (uint64_t i = 0; i < rounds / 4; ++i) {
        Stream stream = *device.stream();
        std::vector<Marked> mine;
        for (int k = 0; k < 8; ++k) {
          mine.push_back({*device.allocate(stream, random_size(random))});
          mine.back().write(random());
        }
        const std::lock_guard lock(mailbox.mutex);
        for (Marked& each : mine)
          if (random() % 2 != 0) mailbox.letters.push_back(std::move(each));
        while (mailbox.letters.size() > 40) {
          if (!mailbox.letters.back().intact()) ++broken;
          mailbox.letters.pop_back();
        }
        std::erase_if(mine, [](const Marked& each) { return !each.buffer; });
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 4; ++i) threads.emplace_back(run, i);
    for (std::thread& thread : threads) thread.join();
    CHECK(broken == 0);
    device = Device();
    CHECK(plugin.live() > 0);  // the buffers keep the device
  }
  CHECK(plugin.live() == 0);
}
