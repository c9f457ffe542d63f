// SPDX-License-Identifier: Apache-2.0
// threads.cpp: different handles are free-threaded; query, sync and signal are any-thread.
#include "conformance/case.hpp"
#include "conformance/cases/on_threads.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/gate.hpp"

#include <atomic>
#include <thread>

namespace tenon::conform {

namespace {

// One thread's own streams and memories, written and read back.
Status work_alone(Context& t, const Device& device, uint64_t seed, int steps) {
  Random random(seed);
  const uint64_t bytes = 2048;
  const Memory a = TN_TRY(device.alloc(bytes))
  , b = TN_TRY(device.alloc(bytes));
  const Stream first = TN_TRY(device.stream())
  , second = TN_TRY(device.stream());
  for (int i = 0; i < steps; ++i) {
    const Bytes sent = random_bytes(random, bytes);
    TN_TRY(first.copy(a.span(), host_span(sent.data(), bytes)));
    const uint64_t written = TN_TRY(first.record());
    TN_TRY(second.wait(first, written));
    TN_TRY(second.copy(b.span(), a.span()));
    const uint64_t copied = TN_TRY(second.record());
    TN_TRY(first.wait(second, copied));
    if (random.chance(3)) continue;
    const Bytes found = TN_TRY(download(second, b.span()));
    if (!same_bytes(t, sent, found, words("step ", i, " of a thread's own work"))) return {};
  }
  TN_TRY(first.finish());
  return second.finish();
}

}  // namespace

CONFORM_CASE(0, "threads: each with its own streams and memory") {
  const Device& device = *TN_TRY(t.device());
  const uint64_t seed = t.random().next();
  const int steps = t.quick() ? 60 : 400;
  on_threads(t, thread_count,
             [&](int i) { return work_alone(t, device, seed + static_cast<uint64_t>(i), steps); });
  return {};
}

CONFORM_CASE(0, "threads: allocation and freeing from everywhere at once") {
  const Device& device = *TN_TRY(t.device());
  const tn_memory_info before = TN_TRY(device.memory_info());
  const uint64_t seed = t.random().next();
  const int steps = t.quick() ? 200 : 2000;
  on_threads(t, thread_count, [&](int i) -> Status {
    Random random(seed + static_cast<uint64_t>(i));
    std::vector<Memory> mine;
    for (int step = 0; step < steps; ++step) {
      if (mine.size() > 16 || (!mine.empty() && random.chance(2))) {
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(random.below(mine.size())));
      } else {
        mine.push_back(TN_TRY(device.alloc(random.between(0, 20'000))));
      }
    }
    return {};
  });
  const tn_memory_info after = TN_TRY(device.memory_info());
  t.check(after.used_here_bytes <= before.used_here_bytes, "used_here_bytes went from ",
          before.used_here_bytes, " to ", after.used_here_bytes, " although all is freed");
  return {};
}

CONFORM_CASE(0, "threads: streams made and destroyed from everywhere at once") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64 * thread_count));
  const int steps = t.quick() ? 30 : 150;
  on_threads(t, thread_count, [&](int i) -> Status {
    for (int step = 0; step < steps; ++step) {
      const Stream stream = TN_TRY(device.stream());
      TN_TRY(stream.fill(memory.span(static_cast<uint64_t>(i) * 64, 64), static_cast<uint64_t>(step), 1));
      if (step % 2 == 0) TN_TRY(stream.finish());
    }
    return {};
  });
  return tour(t, device);
}

CONFORM_CASE(0, "threads: one stream is watched by many while it works") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(4096));
  const Stream stream = TN_TRY(device.stream());
  std::atomic<uint64_t> newest{0};
  std::atomic<bool> over{false};
  const int steps = t.quick() ? 400 : 4000;
  on_threads(t, 5, [&](int i) -> Status {
    uint64_t seen = 0;
    for (int step = 0; i == 0 && step < steps; ++step) {  // the stream's own thread
      const Status filled = stream.fill(memory.span(), static_cast<uint64_t>(step), 1);
      const auto value = stream.record();
      if (!filled.ok() || !value.ok()) {
        over = true;
        return filled.ok() ? Status(value.error()) : Status(filled.error());
      }
      newest = *value;
    }
    if (i == 0) over = true;
    while (i != 0 && !over) {
      const uint64_t value = newest, reached = TN_TRY(stream.completed());
      t.check(reached >= seen, "query went back from ", seen, " to ", reached);
      seen = reached;
      TN_TRY(stream.sync(value));
      t.check(TN_TRY(stream.completed()) >= value, "value ", value, " was synced, and query says less");
    }
    return {};
  });
  return stream.finish();
}

CONFORM_CASE(0, "threads: streams of different threads wait for each other") {
  const Device& device = *TN_TRY(t.device());
  constexpr uint64_t bytes = 1024;
  const int rounds = t.quick() ? 30 : 200;
  // Thread i copies from thread i-1's memory after waiting for its newest value: a pipeline, so it cannot deadlock.
  std::vector<Memory> memories;
  std::vector<Stream> streams;
  std::vector<std::atomic<uint64_t>> recorded(static_cast<size_t>(thread_count) *
                                              static_cast<size_t>(rounds));
  for (int i = 0; i < thread_count * rounds; ++i) recorded[static_cast<size_t>(i)] = 0;
  for (int i = 0; i < thread_count; ++i) {
    memories.push_back(TN_TRY(device.alloc(bytes * static_cast<uint64_t>(rounds))));
    streams.push_back(TN_TRY(device.stream()));
  }
  std::atomic<bool> broken{false};
  const auto stage = [&](size_t i) -> Status {
    for (size_t round = 0; round < static_cast<size_t>(rounds); ++round) {
      const tn_span mine = memories[i].span(round * bytes, bytes);
      std::atomic<uint64_t>* const before =
          i == 0 ? nullptr : &recorded[(i - 1) * static_cast<size_t>(rounds) + round];
      while (before != nullptr && *before == 0 && !broken) std::this_thread::yield();
      if (broken) return {};
      if (before == nullptr) {
        TN_TRY(streams[i].fill(mine, round + 1, 8));
      } else {
        TN_TRY(streams[i].wait(streams[i - 1], *before));
        TN_TRY(streams[i].copy(mine, memories[i - 1].span(round * bytes, bytes)));
      }
      recorded[i * static_cast<size_t>(rounds) + round] = TN_TRY(streams[i].record());
    }
    return {};
  };
  on_threads(t, thread_count, [&](int i) {
    Status said = stage(static_cast<size_t>(i));
    if (!said.ok()) broken = true;
    return said;
  });
  if (broken) return {};
  const Bytes found = TN_TRY(download(streams.back(), memories.back().span()));
  for (size_t round = 0; round < static_cast<size_t>(rounds); ++round) {
    const auto got =
        static_cast<uint64_t>(found[round * bytes]) | static_cast<uint64_t>(found[round * bytes + 1]) << 8;
    t.check(got == round + 1, "round ", round, " arrived at the end of the pipeline as ", got);
  }
  for (const Stream& stream : streams) TN_TRY(stream.finish());
  return {};
}

CONFORM_CASE(0, "threads: a promise is kept from another thread") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(t.needs(device.api().stream.promise != nullptr, "stream.promise",
                 "the plugin has no promise and signal"));
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream promises = TN_TRY(device.stream())
  , stream = TN_TRY(device.stream());
  for (int round = 0; round < (t.quick() ? 30 : 300); ++round) {
    const uint64_t promised = TN_TRY(promises.promise());
    std::thread keeper([&] { t.check(promises.signal(promised).ok(), "signal from another thread failed"); });
    const Status waited = stream.wait(promises, promised);
    const Status filled = stream.fill(memory.span(), static_cast<uint64_t>(round), 1);
    const Status done = stream.finish();
    keeper.join();
    TN_TRY(t.require(waited.ok() && filled.ok() && done.ok(), "round ", round, ": ", waited.message(),
                     filled.message(), done.message()));
  }
  return {};
}

}  // namespace tenon::conform
