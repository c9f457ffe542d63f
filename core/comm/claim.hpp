// SPDX-License-Identifier: Apache-2.0
// claim.hpp: a rank takes its number in a communicator that is being made, and finds out which of its name that is.
//
// Survivors of a failure are numbered anew, so whoever is rank 1 now need not have been rank 1 before. What counts is therefore what
// is in the store, not what a number has made before.
// Invariant: a number is taken once; a communicator is passed over only when nobody can join it any more, because all its
// numbers are taken, or because a rank that came has given it up.
#pragma once

#include "comm/comm_state.hpp"

#include <cstdint>
#include <string>

namespace tenon::comm {

// Who takes which number of how many, in words for others: "process 7 on host a".
struct Claimant {
  const CommOptions& options;
  uint32_t rank = 0, size = 1;
  std::string who{};
};

struct Claim {
  uint64_t serial = 0;  // among the communicators of that name
  std::string key{};    // what its entries begin with
  // Where another process had this number in the one before: what to say should the others not come. Else "".
  std::string doubt{};
};

// Takes the claimant's number in the next communicator of its name on `store`. TN_INVALID names who has it already;
// TN_PEER_LOST, TN_TIMEOUT: the store's. [any-thread; may block; may fail]
Result<Claim> claim_next(const Store& store, const Claimant& claimant);
// The same in the one that `key` begins the entries of.
Status claim(const Store& store, const std::string& key, const Claimant& claimant);
// That one number of it was asked for twice, in words; "" where that is not known. [any-thread; may block; cannot fail]
std::string claimed_twice(const Store& store, const std::string& key);
// Nobody is to wait in it any more: ranks that come meet in the next one. [any-thread; may block; cannot fail]
void call_off(const Store& store, const std::string& key) noexcept;

}  // namespace tenon::comm
