// SPDX-License-Identifier: Apache-2.0
// capture.cpp: level 4, work that is captured once and replayed as one operation.
#include "conformance/case.hpp"
#include "conformance/cases/capture_rig.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/gate.hpp"
#include "conformance/ops/sample.hpp"

#include <cstring>

namespace tenon::conform {

CONFORM_CASE(4, "capture: work is collected and not run, and each replay runs it on what is there") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  TN_TRY(rig.put(rig.a, 1));
  TN_TRY(rig.put(rig.b, 9));
  TN_TRY(rig.stream.finish());
  const Capture capture = TN_TRY(rig.captured_copy());
  TN_TRY(rig.holds(t, rig.b, 9, "after the end of a capture, before any replay"));
  for (const uint64_t number : {2u, 3u, 4u}) {
    TN_TRY(rig.put(rig.a, number));
    TN_TRY(capture.replay(rig.stream));
    TN_TRY(rig.holds(t, rig.b, number, "after a replay"));
  }
  return {};
}

CONFORM_CASE(4, "capture: a replay stands in the order of its stream") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const Memory c = TN_TRY(rig.device->alloc(cell_bytes))
  , d = TN_TRY(rig.device->alloc(cell_bytes));
  const Capture capture = TN_TRY(rig.captured_copy());
  Gate gate = TN_TRY(Gate::make(t, *rig.device));
  TN_TRY(gate.hold(rig.stream));
  Opener opener(gate);
  for (const auto& [number, kept] : {std::pair<uint64_t, const Memory*>{5, &c}, {6, &d}}) {
    TN_TRY(rig.put(rig.a, number));
    TN_TRY(capture.replay(rig.stream));
    TN_TRY(rig.stream.copy(kept->span(), rig.b.span()));
  }
  opener.open();
  TN_TRY(rig.holds(t, c, 5, "a copy behind the first replay"));
  return rig.holds(t, d, 6, "a copy behind the second replay");
}

CONFORM_CASE(4, "capture: a replay that is held back has not run, and no value behind it is reached") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const Stream other = TN_TRY(rig.device->stream());
  TN_TRY(rig.put(rig.a, 7));
  TN_TRY(rig.put(rig.b, 1));
  TN_TRY(rig.stream.finish());
  const Capture capture = TN_TRY(rig.captured_copy());
  Gate gate = TN_TRY(Gate::make(t, *rig.device));
  TN_TRY(gate.hold(rig.stream));
  TN_TRY(capture.replay(rig.stream));
  const uint64_t value = TN_TRY(rig.stream.record());
  constexpr uint64_t soon = 20'000'000;
  t.check(rig.stream.sync(value, soon).code() == TN_TIMEOUT,
          "a value behind a replay that is held was reached");
  t.check(TN_TRY(rig.stream.completed()) < value, "query counts a replay that is held back");
  const Bytes found = TN_TRY(download(other, rig.b.span()));
  t.check(found[0] == std::byte{1}, "a replay ran while its stream was held");
  gate.open();
  return rig.holds(t, rig.b, 7, "once it was let go");
}

CONFORM_CASE(4, "capture: kernels are captured with their bindings and workspace") {
  const Captures captures = TN_TRY(Captures::of(t));
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 3000));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(upload(stream, bench.input.span(), sample.input(0)));
  TN_TRY(bench.launch(stream));  // once as usual, so that whatever is made at first use is there
  TN_TRY(stream.finish());
  TN_TRY(captures.begin(stream));
  TN_TRY(stream.fill(bench.output.span(), 0x5A, 1));
  TN_TRY(bench.launch(stream));
  const Capture capture = TN_TRY(captures.end(stream));
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    TN_TRY(upload(stream, bench.input.span(), sample.input(seed)));
    TN_TRY(capture.replay(stream));
    sample.expect(t, seed, TN_TRY(download(stream, bench.output.span())), words("replay ", seed));
  }
  return {};
}

CONFORM_CASE(4, "capture: a stream joins by waiting, rejoins, and is an ordinary one again") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const Stream other = TN_TRY(rig.device->stream());
  TN_TRY(rig.captures.begin(rig.stream));
  TN_TRY(rig.put(rig.a, 7));
  TN_TRY(other.wait(rig.stream, TN_TRY(rig.stream.record())));
  TN_TRY(other.copy(rig.b.span(), rig.a.span()));
  TN_TRY(rig.stream.wait(other, TN_TRY(other.record())));
  Capture capture = TN_TRY(rig.captures.end(rig.stream));
  TN_TRY(other.fill(rig.b.span(), 1, 8));
  TN_TRY(other.finish());
  TN_TRY(rig.holds(t, rig.b, 1, "work on a stream that had joined"));
  TN_TRY(capture.replay(other));
  TN_TRY(other.finish());
  return rig.holds(t, rig.b, 7, "a replay on the stream that had joined");
}

CONFORM_CASE(4, "capture: a stream that has not rejoined is TN_INVALID, and both work again") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const Stream other = TN_TRY(rig.device->stream());
  TN_TRY(rig.put(rig.a, 1));
  TN_TRY(rig.put(rig.b, 1));
  TN_TRY(rig.stream.finish());
  TN_TRY(rig.captures.begin(rig.stream));
  TN_TRY(rig.put(rig.a, 7));
  TN_TRY(other.wait(rig.stream, TN_TRY(rig.stream.record())));
  TN_TRY(other.fill(rig.b.span(), 7, 8));
  const auto made = rig.captures.end(rig.stream);
  t.check(made.code() == TN_INVALID, "end with a stream that has not rejoined: expected TN_INVALID, got ",
          made.ok() ? "TN_OK" : made.message());
  TN_TRY(rig.holds(t, rig.a, 1, "what was captured in vain"));
  TN_TRY(rig.put(rig.a, 2));
  TN_TRY(other.fill(rig.b.span(), 3, 8));
  TN_TRY(other.finish());
  TN_TRY(rig.holds(t, rig.a, 2, "the first stream, afterwards"));
  return rig.holds(t, rig.b, 3, "the other stream, afterwards");
}

CONFORM_CASE(4, "capture: a second begin is TN_BUSY, an end without begin TN_INVALID, and NULL is refused") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const tn_capture_api& api = rig.captures.api();
  tn_capture* made = nullptr;
  t.refuses(TN_INVALID, "capture.end without begin",
            [&](tn_error* e) { return api.end(rig.stream.handle(), &made, e); });
  t.check(made == nullptr, "a refused end gave a capture");
  TN_TRY(rig.captures.begin(rig.stream));
  t.refuses(TN_BUSY, "a second capture.begin",
            [&](tn_error* e) { return api.begin(rig.stream.handle(), e); });
  TN_TRY(rig.stream.copy(rig.b.span(), rig.a.span()));
  const Capture capture = TN_TRY(rig.captures.end(rig.stream));
  t.refuses(TN_INVALID, "capture.begin(NULL)", [&](tn_error* e) { return api.begin(nullptr, e); });
  t.refuses(TN_INVALID, "capture.end(NULL)", [&](tn_error* e) { return api.end(nullptr, &made, e); });
  t.refuses(TN_INVALID, "capture.end without a place for it",
            [&](tn_error* e) { return api.end(rig.stream.handle(), nullptr, e); });
  t.refuses(TN_INVALID, "capture.replay(NULL)",
            [&](tn_error* e) { return api.replay(nullptr, rig.stream.handle(), e); });
  t.refuses(TN_INVALID, "capture.replay on no stream",
            [&](tn_error* e) { return api.replay(capture.handle(), nullptr, e); });
  t.refuses(TN_INVALID, "capture.destroy(NULL)", [&](tn_error* e) { return api.destroy(nullptr, e); });
  TN_TRY(rig.put(rig.a, 4));
  TN_TRY(capture.replay(rig.stream));
  return rig.holds(t, rig.b, 4, "after all that was refused");
}

CONFORM_CASE(4, "capture: what a plugin does not capture is TN_INVALID, and its stream works afterwards") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const Stream other = TN_TRY(rig.device->stream());
  const Bytes host(cell_bytes, std::byte{0x33});
  Gate gate = TN_TRY(Gate::make(t, *rig.device));
  TN_TRY(gate.hold(other));
  const uint64_t outside = TN_TRY(other.record());
  const auto refused = [&](const char* what, const Status& said) {
    t.check(said.ok() || said.code() == TN_INVALID || said.code() == TN_UNSUPPORTED, what,
            " in a capture: expected TN_OK, TN_INVALID or TN_UNSUPPORTED, got ", said.message());
  };
  for (int round = 0; round < 2; ++round) {
    TN_TRY(rig.captures.begin(rig.stream));
    if (round == 0)
      refused("a copy of host memory", rig.stream.copy(rig.a.span(), host_span(host.data(), host.size())));
    if (round == 1) {
      const Status waited = rig.stream.wait(other, outside);
      t.check(!waited.ok(), "a wait for work outside that is not done cannot be in a capture, and was taken");
      refused("a wait for work outside", waited);
    }
    auto made = rig.captures.end(rig.stream);
    t.check(made.ok() || made.code() == TN_INVALID, "end after what is not captured: ", made.message());
    TN_TRY(rig.put(rig.a, 8));
    TN_TRY(rig.holds(t, rig.a, 8, "the stream, afterwards"));
  }
  gate.open();
  return other.finish();
}

CONFORM_CASE(4, "capture: values never go back, and those after it are reached") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  TN_TRY(rig.put(rig.a, 1));
  const uint64_t before = TN_TRY(rig.stream.record());
  TN_TRY(rig.captures.begin(rig.stream));
  TN_TRY(rig.put(rig.a, 2));
  const uint64_t inside = TN_TRY(rig.stream.record());
  t.check(inside > before, "work was captured, and a value recorded behind it is the one before");
  t.check(TN_TRY(rig.stream.completed()) < inside,
          "query says that a value inside a capture that goes on is reached");
  t.check(rig.stream.sync(inside, 1'000'000).code() == TN_INVALID,
          "sync for a value inside a capture that goes on is not TN_INVALID");
  TN_TRY(rig.put(rig.a, 3));
  const Capture capture = TN_TRY(rig.captures.end(rig.stream));
  TN_TRY(capture.replay(rig.stream));
  const uint64_t after = TN_TRY(rig.stream.record());
  t.check(before <= inside && inside <= after, "values went back: ", before, " before, ", inside, " inside, ",
          after, " after a capture");
  TN_TRY(rig.stream.sync(after));
  t.check(TN_TRY(rig.stream.completed()) >= after, "query says less than what sync waited for");
  return rig.holds(t, rig.a, 3, "after the replay");
}

CONFORM_CASE(4, "capture: a value recorded after it waits for what came before it") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const Stream other = TN_TRY(rig.device->stream());
  Gate gate = TN_TRY(Gate::make(t, *rig.device));
  for (const Stream* stream : {&rig.stream, &other}) {
    TN_TRY(gate.hold(*stream));
    TN_TRY(stream->fill((stream == &other ? rig.b : rig.a).span(), 5, 8));
  }
  TN_TRY(rig.captures.begin(rig.stream));
  TN_TRY(other.wait(rig.stream, TN_TRY(rig.stream.record())));
  TN_TRY(rig.stream.wait(other, TN_TRY(other.record())));
  const Capture capture = TN_TRY(rig.captures.end(rig.stream));
  const uint64_t after = TN_TRY(rig.stream.record())
  , beside = TN_TRY(other.record());
  constexpr uint64_t soon = 20'000'000;
  t.check(rig.stream.sync(after, soon).code() == TN_TIMEOUT,
          "work before a capture is held back, and a value recorded after it was reached");
  t.check(other.sync(beside, soon).code() == TN_TIMEOUT,
          "work before a capture is held back on a stream that joined it, and a value recorded after it was "
          "reached");
  gate.open();
  TN_TRY(rig.stream.sync(after));
  TN_TRY(other.sync(beside));
  return rig.holds(t, rig.a, 5, "work before a capture");
}

CONFORM_CASE(4, "capture: an empty one replays nothing") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  TN_TRY(rig.put(rig.a, 6));
  TN_TRY(rig.captures.begin(rig.stream));
  const Capture capture = TN_TRY(rig.captures.end(rig.stream));
  for (int i = 0; i < 3; ++i) TN_TRY(capture.replay(rig.stream));
  return rig.holds(t, rig.a, 6, "after replays of nothing");
}

CONFORM_CASE(4, "capture: destroyed while a replay is in flight, it is seen out") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  TN_TRY(rig.put(rig.a, 11));
  TN_TRY(rig.put(rig.b, 1));
  TN_TRY(rig.stream.finish());
  Capture capture = TN_TRY(rig.captured_copy());
  Gate gate = TN_TRY(Gate::make(t, *rig.device));
  TN_TRY(gate.hold(rig.stream));
  TN_TRY(capture.replay(rig.stream));
  Opener opener(gate);  // destroy may wait for the replay
  TN_TRY(capture.destroy());
  opener.open();
  return rig.holds(t, rig.b, 11, "a replay whose capture was destroyed");
}

CONFORM_CASE(4, "capture: a stream destroyed while it captures harms nobody") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  TN_TRY(rig.put(rig.a, 1));
  TN_TRY(rig.stream.finish());
  for (const uint32_t mode : {TN_DESTROY_COMPLETE, TN_DESTROY_ABANDON}) {
    Stream lost = TN_TRY(rig.device->stream());
    TN_TRY(rig.captures.begin(lost));
    TN_TRY(lost.fill(rig.a.span(), 5, 8));
    lost.forgive();
    static_cast<void>(lost.destroy(mode));
  }
  TN_TRY(rig.holds(t, rig.a, 1, "work captured on a stream that was destroyed"));
  return tour(t, *rig.device);
}

CONFORM_CASE(4, "capture: several live side by side and replay on any stream of their device") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  constexpr size_t count = 5;
  std::vector<Memory> cells;
  std::vector<Stream> streams;
  std::vector<Capture> captures;
  for (size_t i = 0; i < count; ++i) {
    cells.push_back(TN_TRY(rig.device->alloc(cell_bytes)));
    streams.push_back(TN_TRY(rig.device->stream()));
    TN_TRY(rig.captures.begin(streams[i]));
    TN_TRY(streams[i].fill(cells[i].span(), 100 + i, 8));
    captures.push_back(TN_TRY(rig.captures.end(streams[i])));
  }
  for (size_t i = 0; i < count; ++i) TN_TRY(captures[i].replay(streams[(i + 2) % count]));
  for (const Stream& stream : streams) TN_TRY(stream.finish());
  for (size_t i = 0; i < count; ++i) TN_TRY(rig.holds(t, cells[i], 100 + i, "one of several"));
  return {};
}

CONFORM_CASE(4, "capture: many made and destroyed leave nothing behind") {
  const CaptureRig rig = TN_TRY(CaptureRig::make(t));
  const auto round = [&]() -> Status {
    Capture capture = TN_TRY(rig.captured_copy());
    TN_TRY(capture.replay(rig.stream));
    return capture.destroy();
  };
  for (int i = 0; i < 10; ++i) TN_TRY(round());
  TN_TRY(rig.stream.finish());
  const tn_memory_info before = TN_TRY(rig.device->memory_info());
  for (int i = 0; i < (t.quick() ? 100 : 2000); ++i) TN_TRY(round());
  TN_TRY(rig.stream.finish());
  const tn_memory_info after = TN_TRY(rig.device->memory_info());
  t.check(after.used_here_bytes <= before.used_here_bytes, "memory of the device grew from ",
          before.used_here_bytes, " to ", after.used_here_bytes, " bytes");
  return {};
}

}  // namespace tenon::conform
