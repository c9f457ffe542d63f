// SPDX-License-Identifier: Apache-2.0
// counted_new.hpp: counts every operator new, of the program and of each thread.
//
// Invariant: it replaces the operators, so one source of a program includes it; TSan has its own, so such a program is not
// built there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tenon::test {

inline std::atomic<uint64_t> allocations{0};
inline thread_local uint64_t own_allocations = 0;  // the calling thread's

inline void* counted(size_t bytes, size_t alignment) noexcept {
  ++allocations;
  ++own_allocations;
  const size_t unit = alignment < sizeof(void*) ? sizeof(void*) : alignment;
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit + (bytes == 0 ? unit : 0));
}
inline void* counted_or_throw(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
  if (void* const memory = counted(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace tenon::test

[[gnu::noinline]] void* operator new(size_t bytes) { return tenon::test::counted_or_throw(bytes); }
[[gnu::noinline]] void* operator new[](size_t bytes) { return tenon::test::counted_or_throw(bytes); }
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t align) {
  return tenon::test::counted_or_throw(bytes, static_cast<size_t>(align));
}
[[gnu::noinline]] void* operator new[](size_t bytes, std::align_val_t align) {
  return tenon::test::counted_or_throw(bytes, static_cast<size_t>(align));
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return tenon::test::counted(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return tenon::test::counted(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
