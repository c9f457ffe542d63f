// SPDX-License-Identifier: Apache-2.0
// structs.cpp: structs that are shorter or longer than the plugin knows them.
#include "conformance/case.hpp"
#include "conformance/cases/sizes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tenon::conform {

namespace {

bool left_alone(const unsigned char* room, uint32_t size, unsigned char canary) {
  return std::all_of(room + sizeof(uint32_t), room + std::max<size_t>(size, sizeof(uint32_t)),
                     [&](unsigned char byte) { return byte == canary; });
}

// One open with an ordinal that does not exist, told into an error of which the caller knows `size` bytes. Whoever speaks ABI
// 1.0 knows all of them, so where there are less a plugin may tell what fits or nothing.
void tell_into(Context& t, const Tables& api, uint32_t size) {
  constexpr unsigned char canary = 0xA5;
  alignas(tn_error) unsigned char room[sizeof(tn_error) + 256];
  std::memset(room, canary, sizeof room);
  auto* const error = reinterpret_cast<tn_error*>(room);
  error->size = size;
  const tn_device_options options{.size = sizeof options};
  tn_device* device = nullptr;
  const int32_t code = api.device.open(api.plugin, UINT32_MAX, &options, &device, error);
  const std::string what = words("device.open with a tn_error of size ", size);
  t.check(code == TN_NOT_FOUND, what, ": expected TN_NOT_FOUND, got ", code_name(code));
  t.check(error->size == size, what, ": the size, which is the caller's, is ", error->size, " afterwards");
  size_t beyond = size;
  while (beyond < sizeof room && room[beyond] == canary) ++beyond;
  t.check(beyond == sizeof room, what, ": byte ", beyond, " was written");
  const bool whole = size >= sizeof(tn_error), silent = !whole && left_alone(room, size, canary);
  if (silent) return;
  if (size >= offsetof(tn_error, native_code))
    t.check(error->code == code, what, ": the code inside is ", error->code);
  const size_t text = offsetof(tn_error, message), end = std::min<size_t>(size, sizeof(tn_error));
  if (end <= text) return;
  t.check(std::memchr(error->message, 0, end - text) != nullptr, what,
          ": the message has no NUL inside that size");
}

}  // namespace

CONFORM_CASE(0, "abi: an error is told into as many bytes as the caller knows") {
  const Tables& api = *TN_TRY(t.tables());
  constexpr auto known = static_cast<uint32_t>(sizeof(tn_error));
  constexpr auto text = static_cast<uint32_t>(offsetof(tn_error, message));
  for (const uint32_t size :
       {4u, 8u, 16u, 20u, 24u, 40u, text, text + 1, 100u, known - 4, known, known + 8, known + 128})
    tell_into(t, api, size);
  return {};
}

CONFORM_CASE(0, "abi: an info struct is never written past its size") {
  const Tables& api = *TN_TRY(t.tables());
  const Device& device = *TN_TRY(t.device());
  try_sizes<tn_device_info>(t, "tn_device_info", [&](tn_device_info* out) {
    return t.call("device.info",
                  [&](tn_error* e) { return api.device.info(api.plugin, t.settings().device, out, e); });
  });
  try_sizes<tn_device_limits>(t, "tn_device_limits", [&](tn_device_limits* out) {
    return t.call("device.limits", [&](tn_error* e) { return api.device.limits(device.handle(), out, e); });
  });
  try_sizes<tn_memory_info>(t, "tn_memory_info", [&](tn_memory_info* out) {
    return t.call("device.memory_info",
                  [&](tn_error* e) { return api.device.memory_info(device.handle(), out, e); });
  });
  return {};
}

CONFORM_CASE(0, "abi: options that know less are not read past their size") {
  const Tables& api = *TN_TRY(t.tables());
  TN_TRY(t.present());
  const Sized least(tn_device_options{}, offsetof(tn_device_options, next));
  tn_device* opened = nullptr;
  TN_TRY(t.call("device.open with options of 8 bytes", [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device, least.get(), &opened, e);
  }));
  const Device device(t, api, opened);
  const Sized shorter(tn_stream_options{}, offsetof(tn_stream_options, name));
  tn_stream* handle = nullptr;
  TN_TRY(t.call("stream.create with options of 8 bytes",
                [&](tn_error* e) { return api.stream.create(device.handle(), shorter.get(), &handle, e); }));
  return Stream(t, api, handle).destroy();
}

CONFORM_CASE(0, "abi: options that know more are taken") {
  const Tables& api = *TN_TRY(t.tables());
  TN_TRY(t.present());
  const Sized most(tn_device_options{}, sizeof(tn_device_options) + 128);
  tn_device* opened = nullptr;
  TN_TRY(t.call("device.open with longer options", [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device, most.get(), &opened, e);
  }));
  const Device device(t, api, opened);
  const Sized newer(tn_stream_options{.name = "newer"}, sizeof(tn_stream_options) + 128);
  tn_stream* handle = nullptr;
  TN_TRY(t.call("stream.create with longer options",
                [&](tn_error* e) { return api.stream.create(device.handle(), newer.get(), &handle, e); }));
  const Stream stream(t, api, handle);
  return stream.finish();
}

CONFORM_CASE(0, "abi: a shape that knows less is not read past its size, one that knows more is taken") {
  const Device& device = *TN_TRY(t.device());
  const tn_stream_api& api = device.api().stream;
  TN_TRY(t.needs(api.copy_strided != nullptr, "stream.copy_strided", "the plugin has no copy_strided"));
  const Stream stream = TN_TRY(device.stream());
  const Guarded a = TN_TRY(Guarded::make(device, stream, 32))
  , b = TN_TRY(Guarded::make(device, stream, 32));
  const Bytes sent = random_bytes(t.random(), 32);
  TN_TRY(upload(stream, a.span(), sent));
  const tn_copy_shape row{.rank = 1, .extent = {32}, .dst_stride = {1}, .src_stride = {1}};
  const tn_span to = b.span(), from = a.span();
  const auto copy = [&](const Sized<tn_copy_shape>& shape) {
    return [&](tn_error* e) { return api.copy_strided(stream.handle(), &to, &from, shape.get(), e); };
  };
  // What is not there reads as zero, and the last stride is 1 in every box.
  for (const uint32_t size : {8u, 40u, static_cast<uint32_t>(offsetof(tn_copy_shape, src_stride))})
    t.refuses(TN_INVALID, words("stream.copy_strided with a shape of ", size, " bytes"), copy({row, size}));
  for (const size_t size : {sizeof row - 24, sizeof row, sizeof row + 64}) {
    if (t.accepts(words("stream.copy_strided with a shape of ", size, " bytes"),
                  copy({row, static_cast<uint32_t>(size)})))
      TN_TRY(b.expect(t, stream, sent, words("a shape of ", size, " bytes")));
    TN_TRY(stream.fill(b.span(), 0, 1));
  }
  return stream.finish();
}

CONFORM_CASE(0, "abi: a link that must be understood is refused, another is passed over") {
  const Tables& api = *TN_TRY(t.tables());
  TN_TRY(t.present());
  tn_link link{
      .next = nullptr, .id = "no.such.thing/1", .size = sizeof(tn_link), .flags = TN_LINK_MUST_UNDERSTAND};
  const tn_device_options opening{.size = sizeof opening, .reserved = 0, .next = &link};
  const tn_stream_options making{.size = sizeof making, .priority = 0, .name = nullptr, .next = &link};
  tn_device* opened = nullptr;
  tn_stream* made = nullptr;
  const auto open = [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device, &opening, &opened, e);
  };
  t.refuses(TN_UNSUPPORTED, "device.open with an unknown link that must be understood", open);
  t.check(opened == nullptr, "a refused open stored a device");
  link.flags = 0;
  TN_TRY(t.call("device.open with an unknown link", open));
  const Device device(t, api, opened);
  const auto make = [&](tn_error* e) { return api.stream.create(device.handle(), &making, &made, e); };
  link.flags = TN_LINK_MUST_UNDERSTAND;
  t.refuses(TN_UNSUPPORTED, "stream.create with an unknown link that must be understood", make);
  t.check(made == nullptr, "a refused create stored a stream");
  link.flags = 0;
  TN_TRY(t.call("stream.create with an unknown link", make));
  return Stream(t, api, made).destroy();
}

}  // namespace tenon::conform
