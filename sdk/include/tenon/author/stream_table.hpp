// SPDX-License-Identifier: Apache-2.0
// stream_table.hpp: tn_stream_api made from the author's Stream.
//
// Invariant: an author's stream is asked only for what makes sense: spans inside their memories, equal and
// non-empty copies, values that were issued. So author code holds no argument checks.
#pragma once

#include <tenon/stream.h>
#include <tenon/author/device_table.hpp>
#include <tenon/author/stream_checks.hpp>

namespace tenon::author {

template <class Plugin>
struct StreamTable {
  using Stream = typename Plugin::Stream;
  using H = Handles<Plugin>;
  using Handle = typename H::Stream;

  static int32_t create(tn_device* device, const tn_stream_options* options, tn_stream** out,
                        tn_error* error) noexcept {
    if (out != nullptr) *out = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr) return is_null("device");
      if (out == nullptr) return is_null("stream");
      auto& parent = H::of(device);
      const Incoming<tn_stream_options> wanted(options);
      TN_TRY(check_options(parent, *wanted));
      auto made = TN_TRY(parent.object->create_stream(*wanted));
      *out = TN_TRY(wrap_stream(parent, std::move(made)));
      return {};
    });
  }

  static int32_t destroy(tn_stream* stream, uint32_t mode, tn_error* error) noexcept {
    return farewell<Plugin>(error, [&]() -> Status {
      if (stream == nullptr) return is_null("stream");
      const Leaving leaving{H::of(stream).device->children.streams};
      const std::unique_ptr<Handle> handle(&H::of(stream));
      Status last = handle->object->finish(mode == TN_DESTROY_ABANDON ? mode : TN_DESTROY_COMPLETE);
      if (last.ok() && mode > TN_DESTROY_ABANDON) {
        return Status(TN_INVALID,
                      text("destroy mode ", mode, " does not exist; the stream was completed and destroyed"));
      }
      return last;
    });
  }

  static int32_t copy(tn_stream* stream, const tn_span* dst, const tn_span* src, tn_error* error) noexcept {
    if (!copy_is_plain(stream, dst, src)) [[unlikely]]
      return copy_slowly(stream, dst, src, error);
    return called<Plugin>(error, [&] { return H::of(stream).object->copy(*dst, *src); });
  }

  static int32_t copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src,
                              const tn_copy_shape* shape, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || dst == nullptr || src == nullptr || shape == nullptr)
        return is_null("an argument");
      TN_TRY(check_span<Plugin>(*dst, Spaces::device_or_host, "dst"));
      TN_TRY(check_span<Plugin>(*src, Spaces::device_or_host, "src"));
      const Incoming<tn_copy_shape> box(shape);
      TN_TRY(check_box(*box, box->dst_stride, dst->bytes, "dst"));
      TN_TRY(check_box(*box, box->src_stride, src->bytes, "src"));
      if (box_reach(*box, box->dst_stride) == 0) return {};
      return H::of(stream).object->copy_strided(*dst, *src, *box);
    });
  }

  static int32_t fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
                      tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || dst == nullptr) [[unlikely]]
        return is_null("stream or dst");
      TN_TRY(check_span<Plugin>(*dst, Spaces::device, "dst"));
      if (!std::has_single_bit(pattern_bytes) || pattern_bytes > 8 || dst->bytes % pattern_bytes != 0)
          [[unlikely]]
        return Status(TN_INVALID, text("a pattern of ", pattern_bytes, " bytes does not fill ", dst->bytes,
                                       " bytes: it is 1, 2, 4 or 8 and divides them"));
      if (dst->bytes == 0) [[unlikely]]
        return {};
      return H::of(stream).object->fill(*dst, pattern, pattern_bytes);
    });
  }

  static int32_t record(tn_stream* stream, uint32_t flags, uint64_t* value, tn_error* error) noexcept {
    if (value != nullptr) *value = 0;
    if (forked_child || stream == nullptr || value == nullptr || flags > TN_RECORD_TIMED) [[unlikely]]
      return refuse_record(stream, flags, value, error);
    return called<Plugin>(error, [&]() -> Status {
      auto& handle = H::of(stream);
      Result<uint64_t> recorded = handle.object->record(flags);
      if (!recorded.ok()) [[unlikely]]
        return std::move(recorded).failure();
      if (*recorded < handle.issued.load(std::memory_order_relaxed)) [[unlikely]]
        return went_back(handle, *recorded);
      handle.issued.store(*recorded, std::memory_order_relaxed);
      *value = *recorded;
      return {};
    });
  }

  static int32_t wait(tn_stream* stream, tn_stream* other, uint64_t value, tn_error* error) noexcept {
    if (!wait_is_plain(stream, other, value)) [[unlikely]]
      return wait_slowly(stream, other, value, error);
    return called<Plugin>(error, [&] { return H::of(stream).object->wait(*H::of(other).object, value); });
  }

  static int32_t query(tn_stream* stream, uint64_t* completed, tn_error* error) noexcept {
    if (completed != nullptr) *completed = 0;
    if (forked_child || stream == nullptr || completed == nullptr) [[unlikely]]
      return refuse_query(error);
    return called<Plugin>(error, [&]() -> Status {
      Result<uint64_t> reached = H::of(stream).object->completed();
      if (!reached.ok()) [[unlikely]]
        return std::move(reached).failure();
      *completed = *reached;
      return {};
    });
  }

  static int32_t sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr) return is_null("stream");
      auto& handle = H::of(stream);
      TN_TRY(check_issued(handle.issued.load(std::memory_order_relaxed), value));
      return handle.object->sync(value, timeout_ns);
    });
  }

  static int32_t timestamp(tn_stream* stream, uint64_t value, uint64_t* ns, tn_error* error) noexcept {
    if (ns != nullptr) *ns = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || ns == nullptr) return is_null("stream or ns");
      auto& handle = H::of(stream);
      TN_TRY(check_issued(handle.issued.load(std::memory_order_relaxed), value));
      *ns = TN_TRY(handle.object->timestamp(value));
      return {};
    });
  }

  static int32_t host_call(tn_stream* stream, void (*call)(void*), void* argument, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || call == nullptr) return is_null("stream or call");
      return H::of(stream).object->host_call(call, argument);
    });
  }

  static int32_t promise(tn_stream* stream, uint64_t* value, tn_error* error) noexcept {
    if (value != nullptr) *value = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || value == nullptr) return is_null("stream or value");
      auto& handle = H::of(stream);
      *value = TN_TRY(handle.object->promise());
      handle.issued.store(*value, std::memory_order_relaxed);
      return {};
    });
  }

  static int32_t signal(tn_stream* stream, uint64_t value, int32_t code, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr) return is_null("stream");
      auto& handle = H::of(stream);
      TN_TRY(check_issued(handle.issued.load(std::memory_order_relaxed), value));
      return handle.object->signal(value, code >= 0 && code < TN_CODE_COUNT ? code : TN_INTERNAL);
    });
  }

  // Gives an author's stream a handle; also for a stream that an extension imports.
  static Result<tn_stream*> wrap_stream(typename H::Device& parent, std::unique_ptr<Stream> stream) {
    if (stream == nullptr) return Status(TN_INTERNAL, "Device::create_stream succeeded without a stream");
    Stream* object = stream.get();
    auto* handle = new typename H::Stream{.object = object, .device = &parent, .owner = std::move(stream)};
    parent.children.streams.fetch_add(1);
    return reinterpret_cast<tn_stream*>(handle);
  }

  static constexpr auto copy_strided_slot() -> decltype(tn_stream_api::copy_strided) {
    if constexpr (has::copy_strided<Stream>) return &copy_strided;
    return nullptr;
  }
  static constexpr auto timestamp_slot() -> decltype(tn_stream_api::timestamp) {
    if constexpr (has::timestamp<Stream>) return &timestamp;
    return nullptr;
  }
  static constexpr auto host_call_slot() -> decltype(tn_stream_api::host_call) {
    if constexpr (has::host_call<Stream>) return &host_call;
    return nullptr;
  }
  static constexpr auto promise_slot() -> decltype(tn_stream_api::promise) {
    if constexpr (has::promise<Stream>) return &promise;
    return nullptr;
  }
  static constexpr auto signal_slot() -> decltype(tn_stream_api::signal) {
    if constexpr (has::signal<Stream>) return &signal;
    return nullptr;
  }

  static constexpr tn_stream_api table{
      .header = {sizeof(tn_stream_api), TN_ABI_MAJOR, TN_ABI_MINOR},
      .create = &create,
      .destroy = &destroy,
      .copy = &copy,
      .copy_strided = copy_strided_slot(),
      .fill = &fill,
      .record = &record,
      .wait = &wait,
      .query = &query,
      .sync = &sync,
      .timestamp = timestamp_slot(),
      .host_call = host_call_slot(),
      .promise = promise_slot(),
      .signal = signal_slot(),
  };

 private:
  // Two ordinary ranges of equal size in different memories: nothing more to ask.
  [[gnu::always_inline]] static inline bool copy_is_plain(tn_stream* stream, const tn_span* dst,
                                                          const tn_span* src) noexcept {
    return !forked_child && stream != nullptr && dst != nullptr && src != nullptr &&
           dst->bytes == src->bytes && dst->bytes != 0 && dst->memory != src->memory &&
           inside_memory<Plugin>(*dst) && inside_memory<Plugin>(*src);
  }

  // Every other copy: host addresses, one memory on both sides, nothing to copy, or a mistake to be told.
  [[gnu::noinline]] static int32_t copy_slowly(tn_stream* stream, const tn_span* dst, const tn_span* src,
                                               tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || dst == nullptr || src == nullptr) return is_null("stream, dst or src");
      TN_TRY(check_span<Plugin>(*dst, Spaces::device_or_host, "dst"));
      TN_TRY(check_span<Plugin>(*src, Spaces::device_or_host, "src"));
      TN_TRY(check_copy(*dst, *src));
      if (dst->bytes == 0) return {};
      return H::of(stream).object->copy(*dst, *src);
    });
  }

  [[gnu::cold, gnu::noinline]] static int32_t refuse_record(tn_stream* stream, uint32_t flags,
                                                            uint64_t* value, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || value == nullptr) return is_null("stream or value");
      return Status(TN_INVALID, text("record flags ", flags, ": only TN_RECORD_TIMED exists"));
    });
  }

  [[gnu::cold, gnu::noinline]] static Status went_back(const Handle& handle, uint64_t value) {
    return Status(TN_INTERNAL, text("Stream::record went back from ", handle.issued.load(), " to ", value,
                                    ": values never decrease"));
  }

  [[gnu::cold, gnu::noinline]] static int32_t refuse_query(tn_error* error) noexcept {
    return guarded<Plugin>(error, [&] { return is_null("stream or completed"); });
  }

  // Another stream of the same device, and a value it has issued.
  [[gnu::always_inline]] static inline bool wait_is_plain(tn_stream* stream, tn_stream* other,
                                                          uint64_t value) noexcept {
    if (forked_child || stream == nullptr || other == nullptr) return false;
    const Handle &waiting = H::of(stream), &awaited = H::of(other);
    return value <= awaited.issued.load(std::memory_order_relaxed) && waiting.device == awaited.device &&
           stream != other;
  }

  [[gnu::noinline]] static int32_t wait_slowly(tn_stream* stream, tn_stream* other, uint64_t value,
                                               tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (stream == nullptr || other == nullptr) return is_null("stream or other");
      Handle &waiting = H::of(stream), &awaited = H::of(other);
      TN_TRY(check_issued(awaited.issued.load(std::memory_order_relaxed), value));
      TN_TRY(check_devices<Plugin>(*waiting.device, *awaited.device));
      if (stream == other) return {};
      return waiting.object->wait(*awaited.object, value);
    });
  }

  static Status check_options(const typename H::Device& device, const tn_stream_options& options) {
    TN_TRY(check_links<Plugin>(options.next, "tn_stream_options"));
    if (options.priority >= device.limits.priorities) {
      return Status(TN_INVALID, text("priority ", options.priority, ": device ", device.ordinal,
                                     " has priorities 0 to ", device.limits.priorities - 1));
    }
    const uint32_t alive = device.children.streams, most = device.limits.max_streams;
    if (most == 0 || alive < most) return {};
    return Status(TN_NO_MEMORY, text("device ", device.ordinal, " has ", alive, " of at most ", most,
                                     " streams: destroy one first"));
  }
};

}  // namespace tenon::author
