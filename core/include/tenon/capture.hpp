// SPDX-License-Identifier: Apache-2.0
// capture.hpp: Capture, work of a stream that is recorded once and replayed as one operation.
//
//   auto pair = TN_TRY(tenon::Capture::of(stream, [&]() -> tenon::Status {
//     TN_TRY(first.launch(stream, {x, y}));
//     return second.launch(stream, {y, z});
//   }));
//   for (…) TN_TRY(pair.replay(stream));  // reads what x holds by then
//
// Buffers that the work makes in the order of its stream are the capture's: once dropped they serve the rest of the work, and
// others only when the capture has ended.
// Invariant: a replay does again what was recorded, at the same places; it takes no lock, and allocates nothing but a note of its
// stream, once, where the work made Buffers.
#pragma once

#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/stream.hpp>

#include <functional>

namespace tenon {

namespace detail {
struct CaptureState : Counted {
  TN_API static void destroy(CaptureState* state) noexcept;  // defined in core/runtime
};
}  // namespace detail

// What was captured; copies name the same one. It keeps its device, the kernels in it, and the memory that the work itself
// allocated; other memory that it uses must stay where it is for as long.
class TN_API Capture {
 public:
  Capture() noexcept = default;
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

  // Whether the device's plugin has "tn.capture/1". The layers `validate` and `record` hide it.
  // [any-thread; does not block; cannot fail]
  static bool offered(const Device& device) noexcept;
  // Records what `work` enqueues on `stream`: launches, fills, copies between memory of the device. Another stream joins by
  // waiting for a point recorded inside, and rejoins by being waited for; such points mean nothing outside. TN_UNSUPPORTED where
  // the plugin has no captures; TN_BUSY inside another; TN_INVALID for what cannot be captured (host memory, host calls,
  // collectives, outside work), or a stream that has not rejoined; and as `work`. The stream works again afterwards. What `work`
  // allocates in the order of a stream that joined is not the capture's, and must be kept as other memory is.
  // [stream's thread; may block; may fail]
  static Result<Capture> of(Stream& stream, const std::function<Status()>& work);

  // Enqueues all of it on a stream of the same device. [stream's thread; does not block; may fail]
  Status replay(Stream& stream) const;

 private:
  explicit Capture(detail::Ref<detail::CaptureState> state) noexcept : state_(std::move(state)) {}
  detail::Ref<detail::CaptureState> state_;
};

}  // namespace tenon
