// SPDX-License-Identifier: Apache-2.0
// place.hpp: where the ranks of a communicator meet, as the bytes of an id: a process, and a number in it.
//
// A rank of another process says so in the store, so that those who wait in the right one need not wait in vain.
// Invariant: an id is refused unless it is as it was made.
#pragma once

#include <tenon/host.h>
#include <tenon/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon::cuda::comm {

struct Place {
  uint64_t process = 0, token = 0;

  // A place of this process that no other has. [any-thread; does not block; cannot fail]
  static Place fresh();
  // TN_INVALID. [any-thread; does not block; may fail]
  static Result<Place> read(std::span<const std::byte> id);
  void write(std::span<std::byte> id) const noexcept;
  bool is_here() const noexcept;
};
inline constexpr uint64_t id_bytes = 24;  // a mark and a place

// Refuses a rank whose place is in another process, and tells the ranks there by the store, if there is one.
// [any-thread; may block; may fail]
Status refuse_elsewhere(const Place& place, uint32_t rank, const char* name, const tn_store* store);
// What such a rank has told; asks the store once, without waiting. [any-thread; may block; cannot fail]
std::optional<std::string> told_elsewhere(const Place& place, const tn_store* store);

}  // namespace tenon::cuda::comm
