// SPDX-License-Identifier: Apache-2.0
// stage.cpp: see stage.hpp.
#include "overlap/stage.hpp"

namespace tenon::overlap {

Result<Stage> Stage::open(Device& device, Stream& stream, uint64_t bytes) {
  Stage out;
  auto pinned = device.allocate(stream, bytes, MemoryKind::host);
  Result<uint64_t> address = pinned.ok() ? pinned->address() : Result<uint64_t>(Status(pinned.error()));
  if (!address.ok() && address.code() != TN_UNSUPPORTED) return std::move(address).failure();
  if (address.ok()) {
    out.pinned_ = std::move(pinned).take();
    out.data_ = reinterpret_cast<std::byte*>(*address);
  } else {
    out.pageable_ = std::make_unique<std::byte[]>(bytes);
    out.data_ = out.pageable_.get();
  }
  return out;
}

Result<tn_span> Stage::span(uint64_t offset, uint64_t bytes) const {
  if (pinned_) return pinned_.slice(offset, bytes);
  return Stream::host_span(data_ + offset, bytes);
}

}  // namespace tenon::overlap
