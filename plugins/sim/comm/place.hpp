// SPDX-License-Identifier: Apache-2.0
// place.hpp: where a hub is, as the bytes of an id.
//
// Invariant: an id is refused unless every byte of it came as it was made, however long the profile has it.
#pragma once

#include <tenon/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tenon::sim::comm {

struct Place {
  uint64_t process = 0, number = 0;
  uint64_t token = 0;  // who does not know it is not let in

  // The name of the hub's door. [any-thread; does not block; may throw bad_alloc]
  std::string name() const;
  // Fills an id of at least `least_id_bytes`. [any-thread; does not block; cannot fail]
  void write(std::span<std::byte> id) const noexcept;
  // TN_INVALID names the first byte that is not as it was made. [any-thread; does not block; may fail]
  static Result<Place> read(std::span<const std::byte> id);
};

inline constexpr uint64_t least_id_bytes = 32;  // a mark and a place

}  // namespace tenon::sim::comm
