// SPDX-License-Identifier: Apache-2.0
// tour.cpp: allocate, copy there, copy inside, fill, copy back, compare.
#include "conformance/cases/tour.hpp"

namespace tenon::conform {

Status tour(Context& t, const Device& device) {
  const Memory a = TN_TRY(device.alloc(3000))
  , b = TN_TRY(device.alloc(3000));
  const Stream stream = TN_TRY(device.stream());
  Bytes sent(3000);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + 3);
  TN_TRY(stream.copy(a.span(), host_span(sent.data(), sent.size())));
  TN_TRY(stream.copy(b.span(), a.span()));
  TN_TRY(stream.fill(b.span(1000, 500), 0x42, 1));
  const Bytes back = TN_TRY(download(stream, b.span()));
  std::fill(sent.begin() + 1000, sent.begin() + 1500, std::byte{0x42});
  same_bytes(t, sent, back, "3000 bytes sent there and back");
  return {};
}

Result<std::unique_ptr<Device>> second_handle(Context& t) {
  auto second = Device::open(t, t.settings().device);
  if (second.ok() || second.code() != TN_BUSY) return second;
  return t.unsupported("device.shared", words("the device is exclusive: ", second.message()));
}

Status tour(Context& t) { return tour(t, *TN_TRY(t.device())); }

}  // namespace tenon::conform
