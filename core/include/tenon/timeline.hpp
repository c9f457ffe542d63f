// SPDX-License-Identifier: Apache-2.0
// timeline.hpp: measures what one rank does, on its devices' own clocks: each piece of work stands between two timed values
// of its stream.
//
//   tenon::Timeline timeline;                                     // off: work passes through, nothing is paid
//   if (wanted) timeline = TN_TRY(tenon::Timeline::create(device, {.rank = comm.rank()}));
//   TN_TRY(timeline.measure(stream, {.name = "fc1"}, [&] { return fc1.run(stream, {x, w, y}); }));
//   …
//   TN_TRY(timeline.write("rank0.json"));                         // for `tenon trace`, ui.perfetto.dev
//
// Invariant: memory is bounded and made ahead; once a stream and a name are known, measuring allocates nothing. What is
// not kept is counted.
#pragma once

#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/stream.hpp>
#include <tenon/trace.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon {

struct TimelineOptions {
  uint32_t rank = 0;
  uint32_t events = 1 << 16;  // that are kept: the newest
};

// Copies name the same timeline. Each stream is used by its own thread, as ever; different streams at the same time are fine.
class TN_API Timeline {
 public:
  // What a piece of work is called. Names are copied, once each.
  struct Work {
    TraceKind kind = TraceKind::kernel;
    std::string_view name{};
    uint64_t bytes = 0;
    std::optional<uint32_t> bucket{};
    double predicted_ns = 0;
  };

  // Measures nothing.
  Timeline() noexcept = default;
  // For streams of `device`; opens one of its own, by which it compares the device's clock with the host's.
  // TN_UNSUPPORTED for a device without timestamps; TN_INVALID for no events. [any-thread; blocks; may fail]
  static Result<Timeline> create(Device& device, TimelineOptions options = {});
  explicit operator bool() const noexcept { return state_ != nullptr; }

  // Runs `enqueue`, which enqueues `work` on `stream` and returns a Status, and keeps when that ran on the device; what fails
  // is not kept. [stream's thread; may block as Stream::record; may fail as `enqueue` and the stream]
  template <class Enqueue>
  Status measure(Stream& stream, const Work& work, Enqueue&& enqueue) {
    if (state_ == nullptr) return std::forward<Enqueue>(enqueue)();
    const Point begin = TN_TRY(this->begin(stream));
    TN_TRY(std::forward<Enqueue>(enqueue)());
    return end(stream, begin, work);
  }
  // The halves of `measure`, for work that no single call enqueues: what is enqueued between them on `stream` is `work`.
  // Nothing happens when off, or where the device has no more values to give; that is counted.
  // [stream's thread; may block as Stream::record; may fail as the stream]
  Result<Point> begin(Stream& stream);
  Status end(Stream& stream, const Point& begin, const Work& work);

  // Runs `body`, in which the host's own thread does or awaits `work` and which returns a Status, and keeps when; what fails is
  // not kept. Such events are of TraceKind::host, in a lane without a device, and count in no sum.
  // [any-thread; may block and fail as `body`]
  template <class Body>
  Status measure_host(const Work& work, Body&& body) {
    if (state_ == nullptr) return std::forward<Body>(body)();
    const uint64_t begin_ns = host_ns();
    TN_TRY(std::forward<Body>(body)());
    end_host(begin_ns, work);
    return {};
  }

  // Waits for what was measured and hands it over; what is measured later is another trace. Of a stream that failed it has
  // what was known, and a note. Empty when off. [any-thread; blocks; cannot fail]
  Trace take();
  // `take`, into a file; nothing when off. [any-thread; blocks; may fail]
  Status write(const std::string& file);

  struct State;

 private:
  explicit Timeline(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  static uint64_t host_ns() noexcept;
  void end_host(uint64_t begin_ns, const Work& work);
  std::shared_ptr<State> state_;
};

}  // namespace tenon
