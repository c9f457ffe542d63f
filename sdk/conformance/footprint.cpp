// SPDX-License-Identifier: Apache-2.0
// footprint.cpp: the two gauges, and rounds in windows between their readings.
#include "conformance/footprint.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace tenon::conform {

namespace {

constexpr size_t windows = 5;
constexpr uint64_t fewest_rounds = 2;  // in a window: a compilation may take a second
constexpr uint64_t most_rounds = 256;
constexpr size_t kib = 1024;

// A sanitizer's own count, or null where there is none.
using CountBytes = size_t (*)();
CountBytes sanitizer_count() {
  static const auto count =
      reinterpret_cast<CountBytes>(dlsym(RTLD_DEFAULT, "__sanitizer_get_current_allocated_bytes"));
  return count;
}

uint64_t heap_bytes() {
  if (const CountBytes count = sanitizer_count(); count != nullptr) return count();
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

// Counted page by page; what /proc/self/statm says lags by megabytes on machines of many cores.
uint64_t resident_bytes() {
  std::array<char, 4 * kib> text{};
  const int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t got = read(file, text.data(), text.size() - 1);
  close(file);
  const char* const line = got > 0 ? std::strstr(text.data(), "\nAnonymous:") : nullptr;
  return line != nullptr ? std::strtoull(line + std::strlen("\nAnonymous:"), nullptr, 10) * kib : 0;
}

// Whether a block of memory shows.
bool heap_shows() {
  constexpr size_t block = 50'000;
  const uint64_t before = heap_bytes();
  void* volatile taken = std::malloc(block);
  const bool shows = heap_bytes() >= before + block;
  std::free(taken);
  return shows;
}

// One round after another, and what they leave behind.
class Rounds {
 public:
  Rounds(const std::function<Status()>& round, bool quick) : round_(round), quick_(quick) {}

  // What is taken once is taken here; the quickest of the next rounds says how many a window may have, so that one that was held up does
  // not leave windows in which too little is lost to be seen.
  Status warm_up() {
    TN_TRY(round_());
    const double window = quick_ ? 0.05 : 0.25;
    double quickest = window, all = 0;
    for (int i = 0; i < 8 && all < window; ++i) {
      const auto start = std::chrono::steady_clock::now();
      TN_TRY(round_());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      quickest = std::min(quickest, took.count());
      all += took.count();
    }
    const double affordable = window / std::max(quickest, 1e-6);
    count_ =
        std::clamp(static_cast<uint64_t>(affordable), fewest_rounds, quick_ ? most_rounds / 4 : most_rounds);
    return repeat(count_);
  }
  // [case's thread; may fail]
  Status measure() {
    for (size_t i = 0; i <= windows; ++i) {
      if (i != 0) TN_TRY(repeat(count_));
      const Footprint now = footprint();
      heap_[i] = now.heap;
      resident_[i] = now.resident;
    }
    return {};
  }
  // What went on growing, in words, or "". The heap is exact; pages are told where nothing was taken from the heap.
  std::string story(const Gauges& read_by) const {
    const double heap = read_by.heap ? steady_growth(heap_, count_, std::max<uint64_t>(16 * count_, kib)) : 0;
    if (heap > 0) return told(heap, "of the heap", heap_);
    const double pages =
        read_by.resident ? steady_growth(resident_, count_, std::max<uint64_t>(512 * count_, 64 * kib)) : 0;
    return pages > 0 ? told(pages, "in pages that are not the heap's", resident_) : "";
  }
  void double_windows() { count_ *= 2; }

 private:
  using Readings = std::array<uint64_t, windows + 1>;
  Status repeat(uint64_t times) const {
    for (uint64_t i = 0; i < times; ++i) TN_TRY(round_());
    return {};
  }
  std::string told(double each, const char* where, const Readings& readings) const {
    return words(static_cast<uint64_t>(each), " bytes ", where, " in every round (", readings.front(),
                 " bytes became ", readings.back(), " in ", windows * count_, " rounds)");
  }

  const std::function<Status()>& round_;
  bool quick_;
  uint64_t count_ = fewest_rounds;
  Readings heap_{}, resident_{};
};

}  // namespace

Footprint footprint() { return {.heap = heap_bytes(), .resident = resident_bytes()}; }

Gauges gauges() {
  return {.heap = heap_shows(), .resident = sanitizer_count() == nullptr && resident_bytes() != 0};
}

double steady_growth(std::span<const uint64_t> readings, uint64_t rounds, uint64_t least) {
  if (readings.size() < 2 || readings.back() <= readings.front()) return 0;
  const double count = static_cast<double>(readings.size() - 1);
  const double mean = static_cast<double>(readings.back() - readings.front()) / count;
  for (size_t i = 1; i < readings.size(); ++i) {
    const double grown = static_cast<double>(readings[i]) - static_cast<double>(readings[i - 1]);
    if (grown < static_cast<double>(least) || grown < mean / 2) return 0;
  }
  return mean / static_cast<double>(rounds);
}

Status leaves_nothing(Context& t, const std::string& calls, const std::string& remedy,
                      const std::function<Status()>& round) {
  const Gauges read_by = gauges();
  if (!read_by.heap && !read_by.resident)
    return t.skip("neither the heap nor the pages of this process can be counted here");
  Rounds rounds(round, t.quick());
  TN_TRY(rounds.warm_up());
  TN_TRY(rounds.measure());
  if (!rounds.story(read_by).empty()) {  // a cache that is still being filled comes to its end
    rounds.double_windows();
    TN_TRY(rounds.measure());
  }
  const std::string story = rounds.story(read_by);
  t.check(story.empty(), calls, " leave ", story, ": ", remedy);
  return {};
}

}  // namespace tenon::conform
