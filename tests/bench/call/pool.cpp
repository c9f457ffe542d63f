// SPDX-License-Identifier: Apache-2.0
// One allocation and its release, against malloc and mimalloc: the same sizes in the same order.
//
// Invariant: nobody touches the memory, so what is compared is the book-keeping alone.
#include "empty_plugin.hpp"
#include "rows.hpp"

#include <dlfcn.h>
#include <array>
#include <cstdlib>
#include <utility>

namespace bench {
namespace {

constexpr uint64_t count = 50'000;
constexpr std::array<uint64_t, 8> sizes{512, 4096, 100, 65536, 3000, 16384, 1 << 20, 40000};

// Goes round the sizes.
class NextSize {
 public:
  uint64_t operator()() noexcept { return sizes[at_++ % sizes.size()]; }

 private:
  size_t at_ = 0;
};

using Allocate = void* (*)(size_t);
using Release = void (*)(void*);

// mimalloc's own functions, null where it is not installed. Never closed.
std::pair<Allocate, Release> mimalloc() {
  void* library = nullptr;
  for (const char* name : {"libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so.3", "libmimalloc.so"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, nullptr};
  return {reinterpret_cast<Allocate>(dlsym(library, "mi_malloc")),
          reinterpret_cast<Release>(dlsym(library, "mi_free"))};
}

void row(EmptyPlugin& plugin, tenon::Stream& stream, const std::string& peer, Allocate allocate,
         Release release) {
  NextSize ours, theirs;
  const auto pool = [&] {
    auto buffer = plugin.device.allocate(stream, ours());
    benchmark::DoNotOptimize(buffer->span().memory);
  };
  if (allocate == nullptr || release == nullptr) {
    Row without = alone("pool_alloc_free", count, pool);
    without.peer = peer;
    without.why_no_peer = "lib" + peer + " is not installed";
    return print(without);
  }
  print(against("pool_alloc_free", peer, count, pool, [&] {
    void* memory = allocate(theirs());
    benchmark::DoNotOptimize(memory);
    release(memory);
  }));
}

}  // namespace

void pool_rows() {
  EmptyPlugin plugin;
  tenon::Stream stream = *plugin.device.stream();
  Allocate volatile system_allocate = std::malloc;  // a call through a pointer, as mimalloc's is
  Release volatile system_release = std::free;
  row(plugin, stream, "malloc", system_allocate, system_release);
  const auto [allocate, release] = mimalloc();
  row(plugin, stream, "mimalloc", allocate, release);
}

}  // namespace bench
