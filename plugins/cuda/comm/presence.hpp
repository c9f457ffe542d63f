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

struct Presence {
  uint64_t process = 0;
  uint32_t size = 0;             // ranks that this one was told of
  bool deterministic = false;    // wants the same bits always
  bool prefers_nccl = false;     // also among threads
  bool enrolls = false;          // wants memory registered with NCCL
  uint32_t nccl = 0;             // version; 0: none
  std::string host{}, device{};  // of no two machines; of no two devices of a machine
  std::string why{};             // there is no NCCL

  // One line for each. [any-thread; does not block; may fail]
  std::string told() const;
  static Result<Presence> heard(const std::string& told);
};

enum class Way { threads, nccl };

// Who carries a communicator of these ranks. TN_UNSUPPORTED when nobody does, with the reason: then the host stages it.
// TN_MISMATCH. [any-thread; does not block; may fail]
Result<Way> choose_way(std::span<const Presence> ranks);
// Whether memory is registered: where all ask for it, for NCCL knows the buffers of all ranks or of none.
// [any-thread; does not block; cannot fail]
bool all_enroll(std::span<const Presence> ranks) noexcept;

}  // namespace tenon::cuda::comm
