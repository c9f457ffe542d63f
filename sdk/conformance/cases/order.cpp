// SPDX-License-Identifier: Apache-2.0
// order.cpp: order between streams, judged by the data that arrives.
#include "conformance/case.hpp"
#include "conformance/gate.hpp"

#include <cstring>
#include <deque>

namespace tenon::conform {

namespace {

constexpr uint64_t soon = 40'000'000;  // long enough for a stream that is not held back to have run

// A memory shared by streams, its model, and who touched it last.
struct Cell {
  Memory memory{};
  Bytes model{};
  size_t writer = 0;
  uint64_t written = 0;                                // value on the writer's timeline
  std::vector<std::pair<size_t, uint64_t>> readers{};  // since the last write
};

Status wait_for(const std::vector<Stream>& streams, size_t self, size_t other, uint64_t value) {
  return self == other || value == 0 ? Status() : streams[self].wait(streams[other], value);
}

// Enqueues `to` = `from` on stream `s` after all it depends on.
Status copy_in_order(const std::vector<Stream>& streams, size_t s, Cell& to, Cell& from) {
  TN_TRY(wait_for(streams, s, from.writer, from.written));
  TN_TRY(wait_for(streams, s, to.writer, to.written));
  for (const auto& [reader, value] : to.readers) TN_TRY(wait_for(streams, s, reader, value));
  TN_TRY(streams[s].copy(to.memory.span(), from.memory.span()));
  const uint64_t value = TN_TRY(streams[s].record());
  to.model = from.model;
  to.writer = s;
  to.written = value;
  to.readers.clear();
  from.readers.emplace_back(s, value);
  return {};
}

Status fill_in_order(const std::vector<Stream>& streams, size_t s, Cell& to, uint64_t pattern) {
  TN_TRY(wait_for(streams, s, to.writer, to.written));
  for (const auto& [reader, value] : to.readers) TN_TRY(wait_for(streams, s, reader, value));
  TN_TRY(streams[s].fill(to.memory.span(), pattern, 8));
  to.written = TN_TRY(streams[s].record());
  to.writer = s;
  to.readers.clear();
  for (size_t at = 0; at < to.model.size(); at += 8) std::memcpy(to.model.data() + at, &pattern, 8);
  return {};
}

Status check_cells(Context& t, const Stream& stream, const std::vector<Cell>& cells, const char* what) {
  for (size_t i = 0; i < cells.size(); ++i) {
    const Bytes found = TN_TRY(download(stream, cells[i].memory.span()));
    same_bytes(t, cells[i].model, found, words(what, ", cell ", i));
  }
  return {};
}

Result<std::vector<Cell>> make_cells(Context& t, const Device& device, size_t count, uint64_t bytes) {
  std::vector<Cell> out(count);
  const Stream stream = TN_TRY(device.stream());
  for (Cell& cell : out) {
    cell.memory = TN_TRY(device.alloc(bytes));
    cell.model = random_bytes(t.random(), bytes);
    TN_TRY(upload(stream, cell.memory.span(), cell.model));
  }
  return out;
}

// How many streams a case may use here.
Result<size_t> stream_count(const Device& device, size_t wanted) {
  const tn_device_limits limits = TN_TRY(device.limits());
  if (limits.max_streams == 0) return wanted;
  return std::min<size_t>(wanted, limits.max_streams > 2 ? limits.max_streams - 2 : 1);
}

Result<std::vector<Stream>> make_streams(const Device& device, size_t count) {
  std::vector<Stream> out;
  for (size_t i = 0; i < count; ++i) out.push_back(TN_TRY(device.stream()));
  return out;
}

}  // namespace

CONFORM_CASE(0, "order: a consumer waits for a producer that is held back") {
  const Device& device = *TN_TRY(t.device());
  const Memory a = TN_TRY(device.alloc(4096))
  , b = TN_TRY(device.alloc(4096));
  const Stream producer = TN_TRY(device.stream())
  , consumer = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(producer.fill(a.span(), 0x11, 1));
  TN_TRY(producer.finish());
  TN_TRY(gate.hold(producer));
  TN_TRY(producer.fill(a.span(), 0x22, 1));
  const uint64_t produced = TN_TRY(producer.record());
  TN_TRY(consumer.wait(producer, produced));
  TN_TRY(consumer.copy(b.span(), a.span()));
  const uint64_t consumed = TN_TRY(consumer.record());
  const Status early = consumer.sync(consumed, soon);
  t.check(early.code() == TN_TIMEOUT,
          "the consumer ran before the value it waits for was reached: expected TN_TIMEOUT, got ",
          early.ok() ? "TN_OK" : early.message());
  gate.open();
  const Bytes found = TN_TRY(download(consumer, b.span()));
  same_bytes(t, Bytes(4096, std::byte{0x22}), found, "what the consumer copied");
  return {};
}

CONFORM_CASE(0, "order: a consumer waits for a producer with much to do") {
  const Device& device = *TN_TRY(t.device());
  const uint64_t bytes = uint64_t{t.quick() ? 4u : 16u} << 20;
  const Memory big = TN_TRY(device.alloc(bytes))
  , a = TN_TRY(device.alloc(64))
  , b = TN_TRY(device.alloc(64));
  const Stream producer = TN_TRY(device.stream())
  , consumer = TN_TRY(device.stream());
  for (uint64_t round = 1; round <= (t.quick() ? 5u : 20u); ++round) {
    for (int i = 0; i < 8; ++i) TN_TRY(producer.fill(big.span(), round + static_cast<uint64_t>(i), 8));
    TN_TRY(producer.copy(a.span(), big.span(bytes - 64, 64)));
    const uint64_t produced = TN_TRY(producer.record());
    TN_TRY(consumer.wait(producer, produced));
    TN_TRY(consumer.copy(b.span(), a.span()));
    const uint64_t consumed = TN_TRY(consumer.record());
    TN_TRY(producer.wait(consumer, consumed));
    const Bytes found = TN_TRY(download(consumer, b.span()));
    uint64_t first = 0;
    std::memcpy(&first, found.data(), sizeof first);
    t.check(first == round + 7, "round ", round, ": the consumer copied ", first, ", the producer wrote ",
            round + 7);
  }
  return producer.finish();
}

CONFORM_CASE(0, "order: work enqueued before a wait does not wait") {
  const Device& device = *TN_TRY(t.device());
  const Memory a = TN_TRY(device.alloc(64))
  , b = TN_TRY(device.alloc(64));
  const Stream producer = TN_TRY(device.stream())
  , consumer = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(producer));
  TN_TRY(producer.fill(a.span(), 1, 1));
  const uint64_t produced = TN_TRY(producer.record());
  TN_TRY(consumer.fill(b.span(), 2, 1));
  const uint64_t before = TN_TRY(consumer.record());
  TN_TRY(consumer.wait(producer, produced));
  TN_TRY(consumer.fill(b.span(), 3, 1));
  const uint64_t after = TN_TRY(consumer.record());
  const Status reached = consumer.sync(before);
  t.check(reached.ok(), "a value recorded before the wait: ", reached.message());
  t.check(consumer.sync(after, 0).code() == TN_TIMEOUT,
          "a value recorded after the wait is reached too early");
  gate.open();
  return consumer.sync(after);
}

CONFORM_CASE(0, "order: a chain through many streams") {
  const Device& device = *TN_TRY(t.device());
  const size_t count = TN_TRY(stream_count(device, t.quick() ? 8 : 24));
  std::vector<Cell> cells = TN_TRY(make_cells(t, device, count + 1, 8192));
  const std::vector<Stream> streams = TN_TRY(make_streams(device, count));
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(streams[0]));
  for (size_t i = 0; i < count; ++i) TN_TRY(copy_in_order(streams, i, cells[i + 1], cells[i]));
  const Status early = streams[count - 1].sync(cells[count].written, soon);
  t.check(early.code() == TN_TIMEOUT, "the end of the chain was reached while its beginning is held");
  gate.open();
  return check_cells(t, streams[count - 1], cells, "a chain of copies");
}

CONFORM_CASE(0, "order: many wait for one, one waits for many") {
  const Device& device = *TN_TRY(t.device());
  const size_t count = TN_TRY(stream_count(device, 10));
  TN_TRY(t.require(count >= 3, "the device offers ", count, " streams"));
  std::vector<Cell> cells = TN_TRY(make_cells(t, device, count, 16384));
  const std::vector<Stream> streams = TN_TRY(make_streams(device, count));
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(streams[0]));
  TN_TRY(fill_in_order(streams, 0, cells[0], 0x0123456789abcdef));
  for (size_t i = 1; i < count; ++i) TN_TRY(copy_in_order(streams, i, cells[i], cells[0]));
  TN_TRY(fill_in_order(streams, 0, cells[0], 0x5555555555555555));  // after all of its readers
  for (size_t i = 1; i < count; ++i) {
    t.check(streams[i].sync(cells[i].written, 0).code() == TN_TIMEOUT, "stream ", i,
            " did not wait for stream 0");
  }
  gate.open();
  TN_TRY(streams[0].finish());
  return check_cells(t, streams[0], cells, "one to many to one");
}

CONFORM_CASE(0, "order: random graphs of copies over many streams") {
  const Device& device = *TN_TRY(t.device());
  const size_t count = TN_TRY(stream_count(device, 8));
  for (int round = 0; round < (t.quick() ? 3 : 12); ++round) {
    std::vector<Cell> cells = TN_TRY(make_cells(t, device, 12, 8 * t.random().between(1, 4000)));
    const std::vector<Stream> streams = TN_TRY(make_streams(device, count));
    for (int step = 0; step < (t.quick() ? 150 : 500); ++step) {
      const size_t s = t.random().below(count), to = t.random().below(cells.size());
      if (t.random().chance(4)) {
        TN_TRY(fill_in_order(streams, s, cells[to], t.random().next()));
      } else {
        const size_t from = (to + 1 + t.random().below(cells.size() - 1)) % cells.size();
        TN_TRY(copy_in_order(streams, s, cells[to], cells[from]));
      }
    }
    for (const Stream& stream : streams) TN_TRY(stream.finish());
    TN_TRY(check_cells(t, streams[0], cells, "after a random graph"));
  }
  return {};
}

CONFORM_CASE(0, "order: random graphs behind a gate") {
  const Device& device = *TN_TRY(t.device());
  const size_t count = TN_TRY(stream_count(device, 6));
  for (int round = 0; round < (t.quick() ? 3 : 10); ++round) {
    std::vector<Cell> cells = TN_TRY(make_cells(t, device, 8, 4096));
    const std::vector<Stream> streams = TN_TRY(make_streams(device, count));
    Gate gate = TN_TRY(Gate::make(t, device));
    TN_TRY(gate.hold(streams[t.random().below(count)]));
    for (int step = 0; step < 80; ++step) {
      const size_t to = t.random().below(cells.size()),
                   from = (to + 1 + t.random().below(cells.size() - 1)) % cells.size();
      TN_TRY(copy_in_order(streams, t.random().below(count), cells[to], cells[from]));
    }
    gate.open();
    for (const Stream& stream : streams) TN_TRY(stream.finish());
    TN_TRY(check_cells(t, streams[0], cells, "after a random graph behind a gate"));
  }
  return {};
}

}  // namespace tenon::conform
