// SPDX-License-Identifier: Apache-2.0
// objects.cpp: each method is one call through the table, in words.
#include "conformance/objects.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tenon::conform {

namespace {

const char* kind_name(uint32_t kind) {
  switch (kind) {
    case TN_MEMORY_DEVICE:
      return "DEVICE";
    case TN_MEMORY_HOST:
      return "HOST";
    case TN_MEMORY_MANAGED:
      return "MANAGED";
    default:
      return "?";
  }
}

}  // namespace

void Memory::swap(Memory& other) noexcept {
  std::swap(t_, other.t_);
  std::swap(api_, other.api_);
  std::swap(handle_, other.handle_);
  std::swap(bytes_, other.bytes_);
}

Status Memory::release() {
  if (handle_ == nullptr) return {};
  tn_memory* const handle = std::exchange(handle_, nullptr);
  Status freed = t_->call("device.free", [&](tn_error* e) { return api_->device.free(handle, e); });
  t_->check(freed.ok(), "freeing ", bytes_, " bytes: ", freed.message());
  return freed;
}

Result<uint64_t> Memory::address() const {
  if (api_->device.address == nullptr) return Status(TN_UNSUPPORTED, "the plugin has no device.address");
  uint64_t value = 0;
  TN_TRY(t_->call("device.address", [&](tn_error* e) { return api_->device.address(handle_, &value, e); }));
  return value;
}

void Stream::swap(Stream& other) noexcept {
  std::swap(t_, other.t_);
  std::swap(api_, other.api_);
  std::swap(handle_, other.handle_);
  std::swap(forgiven_, other.forgiven_);
}

Stream::~Stream() {
  if (handle_ == nullptr) return;
  const bool forgiven = forgiven_;
  const Status ended = destroy();
  t_->check(ended.ok() || forgiven, "ending a stream: ", ended.message());
}

Status Stream::copy(const tn_span& dst, const tn_span& src) const {
  return t_->call("stream.copy", [&](tn_error* e) { return api_->stream.copy(handle_, &dst, &src, e); });
}

Status Stream::copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape) const {
  return t_->call("stream.copy_strided",
                  [&](tn_error* e) { return api_->stream.copy_strided(handle_, &dst, &src, &shape, e); });
}

Status Stream::fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) const {
  return t_->call("stream.fill",
                  [&](tn_error* e) { return api_->stream.fill(handle_, &dst, pattern, pattern_bytes, e); });
}

Result<uint64_t> Stream::record(uint32_t flags) const {
  uint64_t value = 0;
  TN_TRY(
      t_->call("stream.record", [&](tn_error* e) { return api_->stream.record(handle_, flags, &value, e); }));
  return value;
}

Status Stream::wait(const Stream& other, uint64_t value) const {
  return t_->call("stream.wait",
                  [&](tn_error* e) { return api_->stream.wait(handle_, other.handle_, value, e); });
}

Result<uint64_t> Stream::completed() const {
  uint64_t value = 0;
  TN_TRY(t_->call("stream.query", [&](tn_error* e) { return api_->stream.query(handle_, &value, e); }));
  return value;
}

Status Stream::sync(uint64_t value) const { return sync(value, t_->settings().patience_ns); }

Status Stream::sync(uint64_t value, uint64_t timeout_ns) const {
  return t_->call("stream.sync",
                  [&](tn_error* e) { return api_->stream.sync(handle_, value, timeout_ns, e); });
}

Status Stream::finish() const { return sync(TN_TRY(record())); }

Result<uint64_t> Stream::timestamp(uint64_t value) const {
  uint64_t ns = 0;
  TN_TRY(t_->call("stream.timestamp",
                  [&](tn_error* e) { return api_->stream.timestamp(handle_, value, &ns, e); }));
  return ns;
}

Status Stream::host_call(void (*function)(void*), void* argument) const {
  return t_->call("stream.host_call",
                  [&](tn_error* e) { return api_->stream.host_call(handle_, function, argument, e); });
}

Result<uint64_t> Stream::promise() const {
  uint64_t value = 0;
  TN_TRY(t_->call("stream.promise", [&](tn_error* e) { return api_->stream.promise(handle_, &value, e); }));
  return value;
}

Status Stream::signal(uint64_t value, int32_t code) const {
  return t_->call("stream.signal", [&](tn_error* e) { return api_->stream.signal(handle_, value, code, e); });
}

Status Stream::destroy(uint32_t mode) {
  if (handle_ == nullptr) return {};
  tn_stream* const handle = std::exchange(handle_, nullptr);
  return t_->call("stream.destroy", [&](tn_error* e) { return api_->stream.destroy(handle, mode, e); });
}

Result<std::unique_ptr<Device>> Device::open(Context& t, uint32_t ordinal) {
  const Tables* api = TN_TRY(t.tables());
  const tn_device_options options{.size = sizeof(tn_device_options), .reserved = 0, .next = nullptr};
  tn_device* handle = nullptr;
  TN_TRY(t.call("device.open",
                [&](tn_error* e) { return api->device.open(api->plugin, ordinal, &options, &handle, e); }));
  TN_TRY(t.require(handle != nullptr, "device.open said TN_OK and stored no device"));
  return std::make_unique<Device>(t, *api, handle);
}

Device::~Device() {
  if (handle_ == nullptr) return;
  const Status closed = close();
  t_.check(closed.ok(), "closing a device: ", closed.message());
}

Status Device::close() {
  tn_device* const handle = std::exchange(handle_, nullptr);
  return t_.call("device.close", [&](tn_error* e) { return api_.device.close(handle, e); });
}

Result<tn_device_limits> Device::limits() const {
  tn_device_limits out{};
  out.size = sizeof out;
  TN_TRY(t_.call("device.limits", [&](tn_error* e) { return api_.device.limits(handle_, &out, e); }));
  return out;
}

Result<tn_memory_info> Device::memory_info() const {
  tn_memory_info out{};
  out.size = sizeof out;
  TN_TRY(
      t_.call("device.memory_info", [&](tn_error* e) { return api_.device.memory_info(handle_, &out, e); }));
  return out;
}

Result<Memory> Device::alloc(uint64_t bytes, uint32_t kind, uint64_t alignment) const {
  tn_memory* handle = nullptr;
  const std::string what =
      words("device.alloc(", kind_name(kind), ", ", bytes, " bytes, alignment ", alignment, ")");
  TN_TRY(t_.call(
      what, [&](tn_error* e) { return api_.device.alloc(handle_, kind, bytes, alignment, &handle, e); }));
  TN_TRY(t_.require(handle != nullptr, what, " said TN_OK and stored no memory"));
  return Memory(t_, api_, handle, bytes);
}

Result<Stream> Device::stream(uint32_t priority, const char* name) const {
  const tn_stream_options options{
      .size = sizeof(tn_stream_options), .priority = priority, .name = name, .next = nullptr};
  tn_stream* handle = nullptr;
  TN_TRY(t_.call("stream.create",
                 [&](tn_error* e) { return api_.stream.create(handle_, &options, &handle, e); }));
  TN_TRY(t_.require(handle != nullptr, "stream.create said TN_OK and stored no stream"));
  return Stream(t_, api_, handle);
}

Status upload(const Stream& stream, const tn_span& dst, std::span<const std::byte> src) {
  TN_TRY(stream.copy(dst, host_span(src.data(), src.size())));
  return stream.finish();
}

Result<Bytes> download(const Stream& stream, const tn_span& src) {
  Bytes out(src.bytes, std::byte{0xEE});
  TN_TRY(stream.copy(host_span(out.data(), out.size()), src));
  TN_TRY(stream.finish());
  return out;
}

bool same_bytes(Context& t, std::span<const std::byte> expected, std::span<const std::byte> found,
                const std::string& where) {
  if (!t.check(expected.size() == found.size(), where, ": ", found.size(), " bytes instead of ",
               expected.size())) {
    return false;
  }
  if (expected.empty() || std::memcmp(expected.data(), found.data(), expected.size()) == 0) return true;
  size_t first = expected.size(), last = 0, count = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == found[i]) continue;
    first = std::min(first, i);
    last = i;
    ++count;
  }
  return t.check(false, where, ": ", count, " of ", expected.size(), " bytes differ, first ", first,
                 ", last ", last, ": expected ", hex(static_cast<unsigned>(expected[first])), ", read ",
                 hex(static_cast<unsigned>(found[first])));
}

Bytes random_bytes(Random& random, uint64_t bytes) {
  Bytes out(bytes);
  random.fill(out);
  return out;
}

}  // namespace tenon::conform
