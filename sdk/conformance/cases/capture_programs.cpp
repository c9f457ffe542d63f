// SPDX-License-Identifier: Apache-2.0
// capture_programs.cpp: level 4, captures of random programs, and memory that comes and goes while they are made.
#include "conformance/cases/capture_rig.hpp"
#include "conformance/ops/sample.hpp"

namespace tenon::conform {

namespace {

struct Move {
  size_t stream = 0, to = 0, from = 0;
  uint64_t pattern = 0;  // not 0: a fill
};

// What the moves make of cells.
void apply(const std::vector<Move>& program, std::vector<uint64_t>& cells) {
  for (const Move& move : program) cells[move.to] = move.pattern != 0 ? move.pattern : cells[move.from];
}

std::vector<Move> draw_program(Random& random, size_t streams, size_t cells) {
  std::vector<Move> out(random.between(1, 24));
  for (Move& move : out) {
    move = {random.below(streams), random.below(cells), random.below(cells)};
    if (move.to == move.from || random.chance(3)) move.pattern = random.next() | 1;
  }
  return out;
}

// Enqueues a program inside a capture of the first stream: each move waits for those before it on other streams, by which
// they join, and the first takes them all back.
Status enqueue(const std::vector<Move>& program, const std::vector<Stream>& streams,
               const std::vector<Memory>& cells) {
  uint64_t last = TN_TRY(streams[0].record());
  size_t before = 0;
  for (const Move& move : program) {
    if (move.stream != before) TN_TRY(streams[move.stream].wait(streams[before], last));
    const tn_span to = cells[move.to].span();
    if (move.pattern != 0)
      TN_TRY(streams[move.stream].fill(to, move.pattern, 8));
    else
      TN_TRY(streams[move.stream].copy(to, cells[move.from].span()));
    last = TN_TRY(streams[move.stream].record());
    before = move.stream;
  }
  return before == 0 ? Status() : streams[0].wait(streams[before], last);
}

}  // namespace

CONFORM_CASE(4, "capture: memory is allocated while a stream captures, used in it, and freed behind it") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  TN_TRY(rig.put(rig.b, 9));
  TN_TRY(rig.stream.finish());
  for (const uint64_t bytes : {cell_bytes, uint64_t{3} << 20}) {
    Memory between;
    TN_TRY(rig.captures.begin(rig.stream));
    {
      const Memory unused = TN_TRY(rig.device->alloc(bytes));  // freed while the stream captures
      between = TN_TRY(rig.device->alloc(bytes));
    }
    TN_TRY(rig.stream.copy(between.span(0, cell_bytes), rig.a.span()));
    TN_TRY(rig.stream.copy(rig.b.span(), between.span(0, cell_bytes)));
    Capture capture = TN_TRY(rig.captures.end(rig.stream));
    TN_TRY(rig.holds(t, rig.b, 9, "after the end of a capture, before any replay"));
    TN_TRY(rig.put(rig.a, 4));
    TN_TRY(capture.replay(rig.stream));
    TN_TRY(rig.holds(t, rig.b, 4, "through memory that was allocated in the capture"));
    TN_TRY(rig.put(rig.b, 9));
    TN_TRY(rig.stream.finish());
    TN_TRY(capture.destroy());
  }
  return {};
}

CONFORM_CASE(4, "capture: random programs on several streams do when replayed what they say") {
  const Captures captures = TN_TRY(Captures::of(t));
  const Device& device = *TN_TRY(t.device());
  constexpr size_t count = 6;
  std::vector<Memory> cells;
  std::vector<Stream> streams;
  std::vector<uint64_t> model(count);
  for (size_t i = 0; i < count; ++i) cells.push_back(TN_TRY(device.alloc(cell_bytes)));
  for (size_t i = 0; i < 3; ++i) streams.push_back(TN_TRY(device.stream()));
  for (size_t i = 0; i < count; ++i) TN_TRY(streams[0].fill(cells[i].span(), model[i] = i + 1, 8));
  TN_TRY(streams[0].finish());
  for (int round = 0; round < (t.quick() ? 20 : 300); ++round) {
    const std::vector<Move> program = draw_program(t.random(), streams.size(), count);
    TN_TRY(captures.begin(streams[0]));
    TN_TRY(enqueue(program, streams, cells));
    const Capture capture = TN_TRY(captures.end(streams[0]));
    const Stream& on = streams[t.random().below(streams.size())];
    const uint64_t times = t.random().between(1, 3);
    for (uint64_t i = 0; i < times; ++i) {
      TN_TRY(capture.replay(on));
      apply(program, model);
    }
    TN_TRY(on.finish());
    for (size_t i = 0; i < count; ++i) {
      const Bytes found = TN_TRY(download(streams[0], cells[i].span()));
      Bytes wanted(cell_bytes);
      for (size_t at = 0; at < cell_bytes; at += 8) std::memcpy(wanted.data() + at, &model[i], 8);
      same_bytes(t, wanted, found, words("program ", round, " of ", program.size(), " moves, cell ", i));
    }
  }
  return {};
}

}  // namespace tenon::conform
