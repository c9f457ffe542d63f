// SPDX-License-Identifier: Apache-2.0
// place.hpp: where the ranks of a communicator meet, as the bytes of an id: a process, and a number in it.
//
// It tells also whether its maker has NCCL; then ranks meet in the store (meeting.hpp). Otherwise a rank of another process says so
// there, so that those who wait in the right one need not wait in vain.
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
  uint64_t nccl = 0;  // the maker's version; 0: it has none, and nobody asks for it

  // A place of this process that no other has, without NCCL. [any-thread; does not block; cannot fail]
  static Place fresh();
  // TN_INVALID. [any-thread; does not block; may fail]
  static Result<Place> read(std::span<const std::byte> id);
  void write(std::span<std::byte> id) const noexcept;
  bool is_here() const noexcept;
};
inline constexpr uint64_t id_bytes = 32;  // a mark and a place

// Number of this process, which no other has, nor a forked child. [any-thread; does not block; cannot fail]
uint64_t this_process() noexcept;
// A key of the store that belongs to this place. [any-thread; does not block; may throw bad_alloc]
std::string key_of(const Place& place, const std::string& what);

// Refuses a rank whose place is in another process, and tells the ranks there by the store, if there is one.
// [any-thread; may block; may fail]
Status refuse_elsewhere(const Place& place, uint32_t rank, const char* name, const tn_store* store);
// What such a rank has told; asks the store once, without waiting. [any-thread; may block; cannot fail]
std::optional<std::string> told_elsewhere(const Place& place, const tn_store* store);

}  // namespace tenon::cuda::comm
