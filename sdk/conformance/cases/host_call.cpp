// SPDX-License-Identifier: Apache-2.0
// host_call.cpp: functions that run on the host in stream order, and the times of recorded values.
#include "conformance/case.hpp"
#include "conformance/gate.hpp"

#include <atomic>
#include <chrono>
#include <cstring>

namespace tenon::conform {

namespace {

Status needs_host_calls(Context& t, const Device& device) {
  return t.needs(device.api().stream.host_call != nullptr, "stream.host_call", "the plugin has no host_call");
}

Status needs_timestamps(Context& t, const Device& device) {
  return t.needs(device.api().stream.timestamp != nullptr, "stream.timestamp", "the plugin has no timestamp");
}

// What a row of host calls saw.
struct Line {
  std::atomic<int> next{0};
  std::atomic<int> wrong{0};
};
struct Place {
  Line* line;
  int position;
};

void note(void* argument) {
  const auto* const place = static_cast<const Place*>(argument);
  if (place->line->next.fetch_add(1) != place->position) place->line->wrong.fetch_add(1);
}

}  // namespace

CONFORM_CASE(0, "host_call: every call runs once, in stream order") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_host_calls(t, device));
  const int count = t.quick() ? 200 : 2000;
  Line line;
  std::vector<Place> places;
  for (int i = 0; i < count; ++i) places.push_back({&line, i});
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  for (Place& place : places) {
    TN_TRY(stream.host_call(note, &place));
    if (t.random().chance(4)) TN_TRY(stream.fill(memory.span(), 1, 1));
  }
  TN_TRY(stream.finish());
  t.check(line.next == count, line.next.load(), " of ", count, " calls ran");
  t.check(line.wrong == 0, line.wrong.load(), " calls ran out of order");
  return {};
}

CONFORM_CASE(0, "host_call: it sees what was copied before and is seen by what is copied after") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_host_calls(t, device));
  auto pinned = device.alloc(4096, TN_MEMORY_HOST);
  if (pinned.code() == TN_UNSUPPORTED) return t.unsupported("memory.host", std::string(pinned.message()));
  TN_TRY(t.require(pinned.ok(), pinned.message()));
  const Memory memory = TN_TRY(device.alloc(4096))
  , after = TN_TRY(device.alloc(4096));
  const Stream stream = TN_TRY(device.stream());
  auto* const shared = reinterpret_cast<unsigned char*>(TN_TRY(pinned->address()));
  TN_TRY(stream.fill(memory.span(), 20, 1));
  TN_TRY(stream.copy(pinned->span(), memory.span()));
  const auto add_one = [](void* argument) {
    auto* const bytes = static_cast<unsigned char*>(argument);
    for (int i = 0; i < 4096; ++i) bytes[i] = static_cast<unsigned char>(bytes[i] + 1);
  };
  TN_TRY(stream.host_call(add_one, shared));
  TN_TRY(stream.copy(after.span(), pinned->span()));
  const Bytes found = TN_TRY(download(stream, after.span()));
  same_bytes(t, Bytes(4096, std::byte{21}), found, "20 filled, 1 added by the host");
  return {};
}

CONFORM_CASE(0, "host_call: enqueueing one does not wait for the stream") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_host_calls(t, device));
  Line line;
  Place place{&line, 0};
  const Stream stream = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  TN_TRY(stream.host_call(note, &place));
  t.check(line.next == 0, "a host call ran while its stream was held");
  const uint64_t value = TN_TRY(stream.record());
  t.check(stream.sync(value, 20'000'000).code() == TN_TIMEOUT && line.next == 0,
          "a host call ran while its stream was held");
  gate.open();
  TN_TRY(stream.sync(value));
  t.check(line.next == 1, "the host call ran ", line.next.load(), " times");
  return {};
}

CONFORM_CASE(0, "timestamp: times of one stream never go back and tell real time") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_timestamps(t, device));
  const uint64_t bytes = uint64_t{1} << 20;
  const Memory memory = TN_TRY(device.alloc(bytes));
  const Stream stream = TN_TRY(device.stream());
  const auto start = std::chrono::steady_clock::now();
  std::vector<uint64_t> values;
  for (int i = 0; i < 50; ++i) {
    TN_TRY(stream.fill(memory.span(), static_cast<uint64_t>(i), 8));
    values.push_back(TN_TRY(stream.record(TN_RECORD_TIMED)));
  }
  TN_TRY(stream.sync(values.back()));
  const double wall =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  const uint64_t first = TN_TRY(stream.timestamp(values.front()));
  uint64_t last = first;
  for (const uint64_t value : values) {
    const uint64_t now = TN_TRY(stream.timestamp(value));
    t.check(now >= last, "value ", value, " is stamped ", now, ", an earlier one ", last);
    last = now;
  }
  t.check(last > first, "50 fills of 1 MiB took no time: all values are stamped ", first);
  t.check(static_cast<double>(last - first) <= wall * 1.5 + 1e6, "the stamps span ", last - first,
          " ns, the wall clock ", wall);
  return {};
}

CONFORM_CASE(0, "timestamp: two streams of one device share an origin") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_timestamps(t, device));
  const Memory memory = TN_TRY(device.alloc(4096));
  const Stream a = TN_TRY(device.stream())
  , b = TN_TRY(device.stream());
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    const Stream& turn = i % 2 == 0 ? a : b;
    TN_TRY(turn.fill(memory.span(), 1, 8));
    const uint64_t value = TN_TRY(turn.record(TN_RECORD_TIMED));
    TN_TRY(turn.sync(value));
    const uint64_t now = TN_TRY(turn.timestamp(value));
    t.check(now >= last, "after value ", last, " ns on one stream the other says ", now);
    last = now;
  }
  return {};
}

CONFORM_CASE(0, "timestamp: a value recorded without TIMED, or not yet reached, has none") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_timestamps(t, device));
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(stream.fill(memory.span(), 1, 1));
  const uint64_t plain = TN_TRY(stream.record());
  TN_TRY(stream.sync(plain));
  t.check(!stream.timestamp(plain).ok(), "a value recorded without TIMED has a time");
  t.check(stream.timestamp(plain + 100).code() == TN_INVALID, "a value nobody recorded must be TN_INVALID");
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  TN_TRY(stream.fill(memory.span(), 2, 1));
  const uint64_t held = TN_TRY(stream.record(TN_RECORD_TIMED));
  t.check(!stream.timestamp(held).ok(), "a value that is not reached has a time");
  gate.open();
  TN_TRY(stream.sync(held));
  t.check(stream.timestamp(held).ok(), "a reached value recorded with TIMED has no time");
  return {};
}

}  // namespace tenon::conform
