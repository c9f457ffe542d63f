// SPDX-License-Identifier: Apache-2.0
// stream.hpp: Stream, a timeline of work, and Point, a place on one.
//
// Invariant: work on a stream is in order; a Point keeps its stream alive, so waiting for it is always legal. A failure
// poisons the stream: every later call tells it, and streams that waited for a lost point tell it too, naming its source.
#pragma once

#include <tenon/stream.h>
#include <tenon/detail/stream_state.hpp>
#include <tenon/export.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tenon {

using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout forever = Timeout::max();

// A value on a stream's timeline. A default-made Point is reached from the start.
class TN_API Point {
 public:
  Point() noexcept = default;
  Point(detail::Ref<detail::StreamState> stream, uint64_t value) noexcept
      : stream_(std::move(stream)), value_(value) {}

  uint64_t value() const noexcept { return value_; }
  // Whether it is known to be reached; asks the device when it is not. A poisoned stream's failure.
  // [any-thread; does not block; may fail]
  Result<bool> reached() const;
  // Blocks until reached. TN_TIMEOUT (nothing is poisoned), or the stream's failure. [any-thread; blocks; may fail]
  Status sync(Timeout timeout = forever) const;
  // Device time in ns, for a point recorded with `Timed::yes`. TN_UNSUPPORTED. [any-thread; does not block; may fail]
  Result<uint64_t> timestamp() const;

  detail::StreamState* stream_state() const noexcept { return stream_.get(); }

 private:
  detail::Ref<detail::StreamState> stream_;
  uint64_t value_ = 0;
};

enum class Timed : uint32_t { no = 0, yes = TN_RECORD_TIMED };

struct StreamOptions {
  std::string name{};     // for logs and timelines
  uint32_t priority = 0;  // 0 … limits().priorities - 1
};

// A timeline; copies name the same one. One thread at a time enqueues; points are any-thread.
class TN_API Stream {
 public:
  Stream() noexcept = default;
  explicit Stream(detail::Ref<detail::StreamState> state) noexcept : state_(std::move(state)) {}
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

  // The point that is reached when all work enqueued so far has finished. Blocks where the device has a fixed number of
  // events, limits().max_pending_records, until one is free. [stream's thread; may block; may fail]
  Result<Point> record(Timed timed = Timed::no);
  // The same as a bare value, for those who keep the stream themselves. [stream's thread; may block; may fail]
  Result<uint64_t> record_value(Timed timed = Timed::no);
  // Later work starts after `point`. A reached point costs a load. A point of another plugin or device is bridged; where
  // this stream's plugin has no promises the host blocks here until it is reached. TN_INVALID for a value that was
  // neither recorded nor promised; the failure of the point's stream, which then is this stream's too.
  // [stream's thread; does not block where the plugin has promises; may fail]
  Status wait(const Point& point);
  // Blocks until all work enqueued so far has finished. TN_TIMEOUT, or the first failure.
  // [stream's thread; blocks; may fail]
  Status sync(Timeout timeout = forever);

  // Enqueues a copy of equal sizes; TN_INVALID for different sizes or overlap. A pageable host source is consumed on
  // return; a pageable host destination may block until filled. Between devices that cannot reach each other the host
  // carries the bytes and blocks until they are there. [stream's thread; may block; may fail]
  Status copy(const tn_span& destination, const tn_span& source);
  // The same between a contiguous host container (a vector, an array, a span) and device bytes of the same size.
  // [stream's thread; may block; may fail]
  template <class Host>
  Status upload(const tn_span& destination, const Host& source) {
    const std::span view(source);
    return copy(destination, host_span(view.data(), view.size_bytes()));
  }
  template <class Host>
  Status download(Host&& destination, const tn_span& source) {
    const std::span view(destination);
    static_assert(!std::is_const_v<typename decltype(view)::element_type>,
                  "download writes to its destination");
    return copy(host_span(view.data(), view.size_bytes()), source);
  }
  // Enqueues a copy of a box; row by row where the plugin has no strided copy. [stream's thread; may block; may fail]
  Status copy_strided(const tn_span& destination, const tn_span& source, const tn_copy_shape& shape);
  // Enqueues destination = pattern repeated; pattern_bytes is 1, 2, 4 or 8. [stream's thread; does not block; may fail]
  Status fill(const tn_span& destination, uint64_t pattern = 0, uint32_t pattern_bytes = 1);
  // Runs `call` on a host thread in stream order. It must not use this plugin; in it, waiting for this stream is TN_INVALID.
  // Where the plugin has no host calls the stream is synchronised and `call` runs here. A call that never ran (the stream
  // was poisoned first) is dropped when the stream ends. What it throws is logged, and the stream goes on: a call that may fail
  // writes down that it has. [stream's thread; may block; may fail]
  Status host_call(std::function<void()> call);

  std::string_view name() const noexcept;
  detail::StreamState* state() const noexcept { return state_.get(); }

  // A span of ordinary host memory. [any-thread; does not block; cannot fail]
  static tn_span host_span(const void* data, uint64_t bytes) noexcept {
    return tn_span{nullptr, reinterpret_cast<uintptr_t>(data), bytes, TN_SPACE_HOST_ADDRESS, 0};
  }

 private:
  detail::Ref<detail::StreamState> state_;
};

inline Result<uint64_t> Stream::record_value(Timed timed) {
  if (!state_->healthy()) [[unlikely]]
    return detail::stream_poison(*state_);
  uint64_t value = 0;
  tn_error error = no_error();
  const int32_t code = state_->api->record(state_->handle, static_cast<uint32_t>(timed), &value, &error);
  if (code != TN_OK) [[unlikely]]
    return detail::stream_failure(*state_, code, error);
  state_->note(value);
  return value;
}

inline Result<Point> Stream::record(Timed timed) {
  auto value = record_value(timed);
  if (!value.ok()) [[unlikely]]
    return std::move(value).failure();
  return Point(state_, *value);
}

inline Status Stream::wait(const Point& point) {
  if (!state_->healthy()) [[unlikely]]
    return detail::stream_poison(*state_);
  detail::StreamState* other = point.stream_state();
  if (other == nullptr || point.value() <= other->reached.load(std::memory_order_acquire)) return {};
  return detail::stream_wait(*state_, *other, point.value());
}

}  // namespace tenon
