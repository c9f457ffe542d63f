// SPDX-License-Identifier: Apache-2.0
// capture_table.hpp: tn_capture_api ("tn.capture/1") made from the author's Stream and Capture.
//
//   class Stream {
//     Status begin_capture();                          // TN_BUSY when it captures already
//     Result<std::unique_ptr<Capture>> end_capture();  // works again afterwards, whatever comes of it
//     Status replay(const Capture& capture);           // one operation, in stream order
//   };
//
// Plugin says `using Capture = …;` and gives &CaptureTable<Plugin>::table for TN_CAPTURE_ID. recording.hpp helps those whose
// device captures nothing by itself.
// Invariant: an author is asked to replay only what was captured on the same device; a Capture may end while replays of it
// are in flight, which run to their end.
#pragma once

#include <tenon/ext/capture.h>
#include <tenon/author/handle.hpp>
#include <tenon/author/instance.hpp>

namespace tenon::author {

template <class Plugin>
struct CaptureTable {
  using Capture = typename Plugin::Capture;
  using H = Handles<Plugin>;

  struct Handle {
    DeviceHandle<typename Plugin::Device>* device;
    std::unique_ptr<Capture> object;
  };
  static Handle& of(tn_capture* capture) noexcept { return *reinterpret_cast<Handle*>(capture); }

  static int32_t begin(tn_stream* stream, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr) return is_null("stream");
      return H::of(stream).object->begin_capture();
    });
  }

  static int32_t end(tn_stream* stream, tn_capture** capture, tn_error* error) noexcept {
    if (capture != nullptr) *capture = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || capture == nullptr) return is_null("stream or capture");
      auto& handle = H::of(stream);
      auto made = std::make_unique<Handle>(Handle{handle.device, nullptr});
      made->object = TN_TRY(handle.object->end_capture());
      if (made->object == nullptr)
        return Status(TN_INTERNAL, "Stream::end_capture succeeded without a capture");
      handle.device->children.captures.fetch_add(1);
      *capture = reinterpret_cast<tn_capture*>(made.release());
      return {};
    });
  }

  static int32_t replay(tn_capture* capture, tn_stream* stream, tn_error* error) noexcept {
    if (forked_child || capture == nullptr || stream == nullptr) [[unlikely]]
      return refuse_replay(error);
    return called<Plugin>(error, [&]() -> Status {
      const Handle& handle = of(capture);
      auto& line = H::of(stream);
      if (handle.device->ordinal != line.device->ordinal) [[unlikely]]
        return Status(TN_INVALID,
                      text("a capture of device ", handle.device->ordinal, " on a stream of another device, ",
                           line.device->ordinal, ": replay it where it was captured"));
      return line.object->replay(*handle.object);
    });
  }

  static int32_t destroy(tn_capture* capture, tn_error* error) noexcept {
    return farewell<Plugin>(error, [&]() -> Status {
      if (capture == nullptr) return is_null("capture");
      const std::unique_ptr<Handle> handle(&of(capture));
      handle->device->children.captures.fetch_sub(1);
      return {};
    });
  }

  static constexpr tn_capture_api table{.header = {sizeof(tn_capture_api), TN_ABI_MAJOR, TN_ABI_MINOR},
                                        .begin = &begin,
                                        .end = &end,
                                        .replay = &replay,
                                        .destroy = &destroy};

 private:
  [[gnu::cold, gnu::noinline]] static int32_t refuse_replay(tn_error* error) noexcept {
    return guarded<Plugin>(error, [&] { return is_null("capture or stream"); });
  }
};

}  // namespace tenon::author
