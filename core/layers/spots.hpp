// SPDX-License-Identifier: Apache-2.0
// spots.hpp: the record layer's view of memory: which recorded memory a span names, and where the host sees its bytes.
//
// Invariant: bytes are read through an address only inside a live memory, or where the caller of a copy named them.
#pragma once

#include "layers/address_map.hpp"
#include "layers/handle_table.hpp"
#include "layers/recording.hpp"

#include <atomic>
#include <memory>
#include <optional>

namespace tenon::layers {

struct MemoryNote {
  MemoryNote(recording::Id number, uint64_t size, std::optional<uint64_t> at)
      : id(number), bytes(size), address(at) {}
  const recording::Id id;
  const uint64_t bytes;
  const std::optional<uint64_t> address;  // as spans may name it
  std::atomic<bool> host_sees{false};     // the program reads and writes it through the address
};

// A span, resolved.
struct Spot {
  recording::SpanNote note;
  std::shared_ptr<MemoryNote> memory;  // null: the caller's own host memory
  const std::byte* host = nullptr;     // where the host sees the bytes; null: it does not
  bool unknown = false;                // an address or handle of nothing that was recorded

  recording::Bytes bytes() const { return {reinterpret_cast<const char*>(host), note.bytes}; }
};

class Spots {
 public:
  // [any-thread; does not block]
  void enter(const void* handle, std::shared_ptr<MemoryNote> memory);
  // The number of the memory that ends, 0 when it is unknown. [any-thread; does not block]
  recording::Id leave(const void* handle);
  std::shared_ptr<MemoryNote> find(const void* handle) const { return memories_.find(handle); }
  Spot spot(const tn_span& span) const;

 private:
  HandleTable<MemoryNote> memories_;
  AddressMap<MemoryNote> addresses_;
};

// SHA-256 of the bytes that a copy wrote at `to`, which the host sees; the gaps of a box are not the copy's. Empty when
// the box has too many rows. [any-thread; does not block]
recording::Bytes digest_of(const std::byte* to, uint64_t bytes, const recording::Box& box);

}  // namespace tenon::layers
