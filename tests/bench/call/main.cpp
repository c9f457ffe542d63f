// SPDX-License-Identifier: Apache-2.0
// The benchmark of calls: launch, record, wait, the pool, work handed to a stream's worker, and what a plugin supports.
//
// Invariant: standard output carries one JSON object a line and nothing else.
#include "rows.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> allocation_count{0};

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace bench {

uint64_t allocations() { return allocation_count.load(std::memory_order_relaxed); }

}  // namespace bench

int main() {
  bench::launch_rows();
  bench::author_rows();
  bench::pool_rows();
  bench::stream_rows();
  bench::supports_rows();
}
