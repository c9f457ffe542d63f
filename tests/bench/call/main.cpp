// SPDX-License-Identifier: Apache-2.0
// The benchmark of calls: launch, record, wait, the pool, and work handed to a stream's worker.
//
// Invariant: standard output carries one JSON object a line and nothing else.
#include "rows.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> allocation_count{0};

void print_list(const char* key, const std::vector<double>& values) {
  std::printf(", \"%s\": [", key);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.4g", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

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

void print(const Row& row) {
  std::printf("{\"name\": \"%s\", \"unit\": \"%s\", \"judge\": \"fastest\", \"limit\": null",
              row.name.c_str(), row.unit.c_str());
  if (row.peer.empty())
    std::printf(", \"peer\": null");
  else
    std::printf(", \"peer\": \"%s\"", row.peer.c_str());
  print_list("ours", row.ours);
  if (row.theirs.empty())
    std::printf(", \"theirs\": null");
  else
    print_list("theirs", row.theirs);
  if (row.why_no_peer.empty())
    std::printf(", \"why_no_peer\": null}\n");
  else
    std::printf(", \"why_no_peer\": \"%s\"}\n", row.why_no_peer.c_str());
  std::fflush(stdout);
}

void left_out(const std::string& name, const std::string& why) {
  std::fprintf(stderr, "row '%s' is left out: %s\n", name.c_str(), why.c_str());
}

}  // namespace bench

int main() {
  bench::launch_rows();
  bench::author_rows();
  bench::pool_rows();
  bench::stream_rows();
}
