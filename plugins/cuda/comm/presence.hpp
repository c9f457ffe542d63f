// SPDX-License-Identifier: Apache-2.0
// presence.hpp: what each rank tells of itself before a communicator is made, and what all of that comes to.
//
// Invariant: the choice depends on the list alone, so ranks that have read the same list choose alike.
#pragma once

#include <tenon/result.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace tenon::cuda::comm {

// What NCCL is told of the memory it is used with, from less to more: nothing; each rank its own buffers; what all ranks bring
// alike, which kernels of one may then reach on the others.
enum class Enrolling : uint8_t { none, buffers, windows };

struct Presence {
  uint64_t process = 0;
  uint32_t size = 0;                      // ranks that this one was told of
  bool deterministic = false;             // wants the same bits always
  bool prefers_nccl = false;              // also among threads
  Enrolling enrolling = Enrolling::none;  // wished for
  uint32_t nccl = 0;                      // version; 0: none
  std::string host{}, device{};           // of no two machines; of no two devices of a machine
  std::string why{};                      // there is no NCCL

  // One line for each. [any-thread; does not block; may fail]
  std::string told() const;
  static Result<Presence> heard(const std::string& told);
};

enum class Way { threads, nccl };

// Who carries a communicator of these ranks. TN_UNSUPPORTED when nobody does, with the reason: then the host stages it.
// TN_MISMATCH. [any-thread; does not block; may fail]
Result<Way> choose_way(std::span<const Presence> ranks);
// The most that all of them ask for: NCCL knows the buffers of all ranks or of none. [any-thread; does not block; cannot fail]
Enrolling agreed_enrolling(std::span<const Presence> ranks) noexcept;

}  // namespace tenon::cuda::comm
