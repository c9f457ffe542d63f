// SPDX-License-Identifier: Apache-2.0
// breadcrumb.cpp: a few pages shared between a worker and its runner, and who writes where.
#include "conformance/breadcrumb.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

namespace tenon::conform {

namespace {

Tracks* shared = nullptr;  // set once, before any other thread runs

uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// A thread's track, from its first call to its own end.
struct Tenancy {
  Track* track = nullptr;
  Tenancy() {
    if (shared == nullptr) return;
    for (Track& one : *shared) {
      uint32_t free = 0;
      if (!std::atomic_ref(one.taken).compare_exchange_strong(free, 1)) continue;
      track = &one;
      one.depth = 0;  // who was here before may have ended inside a call
      return;
    }
  }
  Tenancy(const Tenancy&) = delete;
  Tenancy& operator=(const Tenancy&) = delete;
  ~Tenancy() {
    if (track != nullptr) std::atomic_ref(track->taken).store(0);
  }
};

Track* my_track() noexcept {
  thread_local const Tenancy mine;
  return mine.track;
}

void write(std::array<char, 496>& to, std::string_view what) noexcept {
  const size_t length = std::min(what.size(), to.size() - 1);
  std::memcpy(to.data(), what.data(), length);
  to[length] = '\0';
}

}  // namespace

void share_breadcrumbs(int descriptor) noexcept {
  void* const mapped = mmap(nullptr, breadcrumb_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped != MAP_FAILED) shared = static_cast<Tracks*>(mapped);
  close(descriptor);
}

void sweep_breadcrumbs() noexcept {
  if (shared == nullptr) return;
  for (Track& one : *shared) {
    if (std::atomic_ref(one.depth).load() == 0) one.ended_ns = one.calls = 0;
  }
}

Breadcrumb::Breadcrumb(std::string_view what) noexcept : track_(my_track()) {
  if (track_ == nullptr) return;
  const uint32_t depth = track_->depth;
  if (depth < track_->what.size()) {
    write(track_->what[depth], what);
    track_->began_ns[depth] = now_ns();
  }
  std::atomic_ref(track_->depth).store(depth + 1, std::memory_order_release);
}

Breadcrumb::~Breadcrumb() {
  if (track_ == nullptr) return;
  std::atomic_ref(track_->depth).store(track_->depth - 1, std::memory_order_release);
  track_->ended_ns = now_ns();
  ++track_->calls;
}

}  // namespace tenon::conform
