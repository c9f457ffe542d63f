// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: one stream's values: what is recorded, reached, asked for and refused.
#include "conformance/case.hpp"
#include "conformance/gate.hpp"

#include <chrono>
#include <cstring>
#include <thread>

namespace tenon::conform {

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

CONFORM_CASE(0, "timeline: it starts at 0, which is always reached") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream())
  , other = TN_TRY(device.stream());
  TN_TRY(stream.completed());
  t.check(stream.sync(0, 0).ok(), "value 0 of a new stream is not reached");
  const Status waited = other.wait(stream, 0);
  t.check(waited.ok(), "waiting for value 0 of a new stream: ", waited.message());
  return other.finish();
}

CONFORM_CASE(0, "timeline: values never decrease and are reached in order") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(4096));
  const Stream stream = TN_TRY(device.stream());
  uint64_t last = 0, seen = 0;
  for (int i = 0; i < (t.quick() ? 300 : 3000); ++i) {
    TN_TRY(stream.fill(memory.span(), static_cast<uint64_t>(i), 1));
    const uint64_t value = TN_TRY(stream.record())
    , reached = TN_TRY(stream.completed());
    t.check(value > last, "work was enqueued after value ", last, ", and record gave ", value);
    t.check(reached >= seen, "query went back from ", seen, " to ", reached);
    t.check(reached <= value, "query says ", reached, ", the newest value is ", value);
    last = value;
    seen = reached;
    if (t.random().chance(20)) TN_TRY(stream.sync(value));
  }
  TN_TRY(stream.sync(last));
  t.check(TN_TRY(stream.completed()) >= last, "after sync(", last, ") query says less");
  return {};
}

CONFORM_CASE(0, "timeline: with nothing enqueued since, a value may repeat and is reached") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = TN_TRY(stream.record());
    t.check(value >= last, "record went back from ", last, " to ", value);
    last = value;
  }
  return stream.sync(last);
}

CONFORM_CASE(0, "timeline: as many records as the limits say, and one more waits or is TN_NO_MEMORY") {
  const Device& device = *TN_TRY(t.device());
  const uint64_t limit = TN_TRY(device.limits())
  .max_pending_records;
  if (limit > 100'000) return t.skip(words("the limit is ", limit, " records"));
  const Memory memory = TN_TRY(device.alloc(8));
  const Stream stream = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  const uint64_t most = limit != 0 ? limit : 250;  // a device queues 256 calls before one may wait for room
  uint64_t newest = 0;
  for (uint64_t i = 0; i + 1 < most; ++i) {  // the gate may have taken one
    TN_TRY(stream.fill(memory.span(), i, 8));
    const auto value = stream.record();
    TN_TRY(t.require(value.ok(), "record ", i + 1, " of ", most, ": ", value.message()));
    newest = *value;
  }
  Opener opener(gate);  // what waits for an event waits for this
  for (int i = 0; i < 3; ++i) {
    TN_TRY(stream.fill(memory.span(), most, 8));
    const auto value = stream.record();
    const bool refused = limit != 0 && value.code() == TN_NO_MEMORY;
    t.check(value.ok() || refused, "a record beside ", most, " outstanding ones: ", value.message());
  }
  opener.open();
  TN_TRY(stream.sync(newest));  // which makes room for one more
  TN_TRY(stream.finish());
  const Bytes found = TN_TRY(download(stream, memory.span()));
  t.check(std::memcmp(found.data(), &most, sizeof most) == 0, "the last of ", most, " fills has not run");
  return {};
}

CONFORM_CASE(0, "timeline: a value nobody recorded is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream())
  , other = TN_TRY(device.stream());
  const uint64_t newest = TN_TRY(stream.record());
  constexpr uint64_t soon = 200'000'000;
  for (const uint64_t value : {newest + 1, newest + 1000, UINT64_MAX}) {
    const Status waited = other.wait(stream, value), synced = stream.sync(value, soon),
                 own = stream.wait(stream, value);
    t.check(waited.code() == TN_INVALID, "wait for ", value, " of ", newest, ": expected TN_INVALID, got ",
            waited.ok() ? "TN_OK" : waited.message());
    t.check(synced.code() == TN_INVALID, "sync for ", value, " of ", newest, ": expected TN_INVALID, got ",
            synced.ok() ? "TN_OK" : synced.message());
    t.check(own.code() == TN_INVALID, "a stream's wait for its own value ", value,
            ": expected TN_INVALID, got ", own.ok() ? "TN_OK" : own.message());
  }
  TN_TRY(other.finish());  // the refused waits left nothing behind
  return stream.finish();
}

CONFORM_CASE(0, "timeline: query tells no more than has happened") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  const uint64_t before = TN_TRY(stream.record());
  TN_TRY(stream.sync(before));
  TN_TRY(gate.hold(stream));
  TN_TRY(stream.fill(memory.span(), 1, 1));
  const uint64_t after = TN_TRY(stream.record());
  t.check(after > before, "work was enqueued after value ", before, ", and record gave ", after);
  for (int i = 0; i < 50; ++i) {
    const uint64_t reached = TN_TRY(stream.completed());
    t.check(reached < after, "value ", after, " is held back by a ", gate.means(), ", and query says ",
            reached);
  }
  gate.open();
  TN_TRY(stream.sync(after));
  t.check(TN_TRY(stream.completed()) >= after, "value ", after, " was synced, and query says less");
  return {};
}

CONFORM_CASE(0, "timeline: sync with a timeout of 0 asks and does not block") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  TN_TRY(stream.fill(memory.span(), 1, 1));
  const uint64_t value = TN_TRY(stream.record());
  const auto start = std::chrono::steady_clock::now();
  constexpr int asked = 20;
  for (int i = 0; i < asked; ++i) {
    const Status said = stream.sync(value, 0);
    t.check(said.code() == TN_TIMEOUT, "expected TN_TIMEOUT, got ", said.ok() ? "TN_OK" : said.message());
  }
  const double took = milliseconds_since(start);
  t.check(took < 1000, asked, " questions took ", took, " ms");
  gate.open();
  TN_TRY(stream.sync(value));
  t.check(stream.sync(value, 0).ok(), "a reached value is asked for with timeout 0, and it is not OK");
  return {};
}

CONFORM_CASE(0, "timeline: a host that polls with sync and a timeout of 0 gets there") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(4096));
  const Stream stream = TN_TRY(device.stream());
  const auto start = std::chrono::steady_clock::now();
  const double patience = static_cast<double>(t.settings().patience_ns) / 1e6;
  for (int i = 0; i < 8; ++i) TN_TRY(stream.fill(memory.span(), static_cast<uint64_t>(i), 1));
  const uint64_t value = TN_TRY(stream.record());
  Status said = stream.sync(value, 0);
  for (; said.code() == TN_TIMEOUT && milliseconds_since(start) < patience; said = stream.sync(value, 0))
    std::this_thread::yield();
  t.check(said.ok(), "8 fills were asked after for ", milliseconds_since(start), " ms: ", said.message());
  t.check(TN_TRY(stream.completed()) >= value, "a sync with a timeout of 0 found ", value,
          " reached, and query says less");
  return {};
}

CONFORM_CASE(0, "timeline: sync keeps its deadline, and a timeout poisons nothing") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  TN_TRY(stream.fill(memory.span(), 7, 1));
  const uint64_t value = TN_TRY(stream.record());
  const auto start = std::chrono::steady_clock::now();
  const Status said = stream.sync(value, 60'000'000);
  const double took = milliseconds_since(start);
  t.check(said.code() == TN_TIMEOUT, "expected TN_TIMEOUT, got ", said.ok() ? "TN_OK" : said.message());
  t.check(took >= 50, "a sync of 60 ms gave up after ", took, " ms");
  t.check(took < 2000, "a sync of 60 ms gave up only after ", took, " ms");
  gate.open();
  const Bytes found = TN_TRY(download(stream, memory.span()));
  same_bytes(t, Bytes(64, std::byte{7}), found, "the stream after a timeout");
  return {};
}

CONFORM_CASE(0, "timeline: a stream may wait for itself") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  for (int i = 0; i < 100; ++i) {
    TN_TRY(stream.fill(memory.span(), static_cast<uint64_t>(i), 1));
    const uint64_t value = TN_TRY(stream.record());
    const Status said = stream.wait(stream, value);
    t.check(said.ok(), "round ", i, ": ", said.message());
  }
  return stream.finish();
}

CONFORM_CASE(0, "timeline: waiting for a reached value holds nothing back") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream producer = TN_TRY(device.stream())
  , consumer = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  const uint64_t value = TN_TRY(producer.record());
  TN_TRY(producer.sync(value));
  TN_TRY(gate.hold(producer));  // the producer is busy again; its old value is as reached as ever
  TN_TRY(consumer.wait(producer, value));
  TN_TRY(consumer.fill(memory.span(), 3, 1));
  const Status said = consumer.finish();
  t.check(said.ok(),
          "the consumer waited for a reached value and then for the producer's later work: ", said.message());
  gate.open();
  return producer.finish();
}

CONFORM_CASE(0, "timeline: one held stream does not hold another") {
  const Device& device = *TN_TRY(t.device());
  const Memory a = TN_TRY(device.alloc(64))
  , b = TN_TRY(device.alloc(64));
  const Stream held = TN_TRY(device.stream())
  , free = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(held));
  TN_TRY(held.fill(a.span(), 1, 1));
  const uint64_t behind = TN_TRY(held.record());
  TN_TRY(free.fill(b.span(), 2, 1));
  const Status said = free.finish();
  t.check(said.ok(), "a stream that waits for nothing did not run while another was held: ", said.message());
  t.check(held.sync(behind, 0).code() == TN_TIMEOUT, "the held stream ran");
  gate.open();
  return held.sync(behind);
}

CONFORM_CASE(0, "timeline: enqueueing does not block while the stream is held") {
  const Device& device = *TN_TRY(t.device());
  const tn_device_limits limits = TN_TRY(device.limits());
  const Memory a = TN_TRY(device.alloc(64))
  , b = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  const uint32_t wanted = t.quick() ? 100 : 500;
  const uint32_t count =
      limits.max_pending_records == 0 ? wanted : std::min(wanted, limits.max_pending_records);
  const auto start = std::chrono::steady_clock::now();
  uint64_t value = 0;
  for (uint32_t i = 0; i < count; ++i) {
    TN_TRY(stream.fill(a.span(), i, 1));
    TN_TRY(stream.copy(b.span(), a.span()));
    value = TN_TRY(stream.record());
  }
  const double took = milliseconds_since(start);
  t.check(took < 3000, "enqueueing ", count, " fills, copies and records behind a held stream took ", took,
          " ms");
  t.check(stream.sync(value, 0).code() == TN_TIMEOUT, "the held stream ran");
  gate.open();
  return stream.sync(value);
}

}  // namespace tenon::conform
