// SPDX-License-Identifier: Apache-2.0
// spots.cpp: see spots.hpp.
#include "layers/spots.hpp"

#include "base/sha256.hpp"
#include "layers/footprint.hpp"

namespace tenon::layers {

using namespace recording;

void Spots::enter(const void* handle, std::shared_ptr<MemoryNote> memory) {
  if (memory->address) addresses_.insert(*memory->address, memory);
  memories_.insert(handle, std::move(memory));
}

Id Spots::leave(const void* handle) {
  const auto memory = memories_.erase(handle);
  if (memory && memory->address) addresses_.erase(*memory->address, memory);
  return memory ? memory->id : 0;
}

Spot Spots::spot(const tn_span& span) const {
  Spot out;
  out.note.bytes = span.bytes;
  if (span.bytes == 0) return out;
  if (span.space == TN_SPACE_MEMORY) {
    out.memory = memories_.find(span.memory);
    out.note.offset = span.offset;
  } else {
    const auto [memory, begin] = addresses_.find(span.offset);
    out.memory = memory;
    out.note.offset = memory ? span.offset - begin : 0;
    if (!memory && span.space == TN_SPACE_HOST_ADDRESS)
      out.host = reinterpret_cast<const std::byte*>(span.offset);
  }
  out.unknown = !out.memory && out.host == nullptr;
  if (!out.memory) return out;
  const MemoryNote& memory = *out.memory;
  out.note.memory = memory.id;
  const bool inside = span.bytes <= memory.bytes && out.note.offset <= memory.bytes - span.bytes;
  if (memory.host_sees && inside)
    out.host = reinterpret_cast<const std::byte*>(*memory.address + out.note.offset);
  return out;
}

Bytes digest_of(const std::byte* to, uint64_t bytes, const Box& box) {
  const Footprint rows = box.rank == 0 ? Footprint{.rows = {{0, bytes}}, .extent = bytes}
                                       : footprint(box.extent, box.dst_stride, 1);
  if (!rows.exact) return {};
  base::Sha256 sha;
  for (const Range& row : rows.rows) sha.add(std::span(to + row.begin, to + row.end));
  const base::Digest digest = sha.finish();
  return Bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace tenon::layers
