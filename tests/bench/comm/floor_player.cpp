// SPDX-License-Identifier: Apache-2.0
// floor_player.cpp: what the sums and the bytes of an all-reduce cost when nobody waits: the limit on one host.
//
// Invariant: each float is read once from every rank's memory and written once to it, by one rank; every processor does its ranks'
// shares in turn, so that no more of them fit into its caches than in a sum.
#include "players.hpp"
#include "sums.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define BENCH_WIDE [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define BENCH_WIDE
#endif

namespace bench {

BENCH_WIDE void add(float* to, const float* a, const float* b, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

namespace {

BENCH_WIDE void add_two(float* a, float* b, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
}

BENCH_WIDE void add_four(float* a, float* b, float* c, float* d, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) a[i] = b[i] = c[i] = d[i] = a[i] + b[i] + c[i] + d[i];
}

}  // namespace

void add_all(float* const* arrays, size_t size, size_t begin, size_t end) {
  const size_t count = end - begin;
  if (size == 2) return add_two(arrays[0] + begin, arrays[1] + begin, count);
  if (size == 4)
    return add_four(arrays[0] + begin, arrays[1] + begin, arrays[2] + begin, arrays[3] + begin, count);
  for (size_t i = begin; i < end; ++i) {
    float sum = 0;
    for (size_t r = 0; r < size; ++r) sum += arrays[r][i];
    for (size_t r = 0; r < size; ++r) arrays[r][i] = sum;
  }
}

namespace {

class FloorPlayer final : public Player {
 public:
  explicit FloorPlayer(const Seat& seat) : seat_(seat) {
    const int file = open(seat.floor.c_str(), O_RDWR | O_CLOEXEC);
    const size_t bytes = page + seat.size * most_bytes;
    void* const all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || all == MAP_FAILED) {
      std::perror("bench comm: the memory of the floor");
      std::exit(1);
    }
    close(file);
    arrived_ = static_cast<std::atomic<uint64_t>*>(all);
    for (uint32_t r = 0; r < seat.size; ++r)
      arrays_.push_back(reinterpret_cast<float*>(static_cast<std::byte*>(all) + page + r * most_bytes));
    for (size_t i = 0; i < most_bytes / sizeof(float); ++i) memory()[i] = 0;
  }

  float* memory() override { return arrays_[seat_.rank]; }
  void all_reduce(float* data, size_t count) override {
    const size_t at = static_cast<size_t>(data - memory());
    if (seat_.rank >= seat_.processors) return;
    const size_t share = (count / seat_.size + 15) / 16 * 16;
    for (uint32_t rank = seat_.rank; rank < seat_.size; rank += seat_.processors) {
      const size_t begin = std::min(count, rank * share), end = std::min(count, begin + share);
      add_all(arrays_.data(), seat_.size, at + begin, at + (rank + 1 == seat_.size ? count : end));
    }
  }
  void barrier() override {
    const uint64_t mine = arrived_->fetch_add(1) / seat_.size;
    while (arrived_->load() < (mine + 1) * seat_.size) sched_yield();
  }

 private:
  static constexpr size_t page = 4096;
  Seat seat_;
  std::vector<float*> arrays_;
  std::atomic<uint64_t>* arrived_ = nullptr;
};

}  // namespace

std::unique_ptr<Player> floor_player(const Seat& seat) { return std::make_unique<FloorPlayer>(seat); }

}  // namespace bench
