// SPDX-License-Identifier: Apache-2.0
// roll_call.hpp: every rank of a communicator says something through the store, and hears what all say.
//
// Invariant: who is named as missing is so: the store has said that its word is not there.
#pragma once

#include "comm/comm_state.hpp"

#include <string>
#include <vector>

namespace tenon::comm {

// What ranks come to, and what must be done so that all of them do.
struct Occasion {
  const char* name;    // "its split"
  const char* remedy;  // "all ranks call it"
};

// What all ranks of `comm` say under `base`, by rank; this one says `own`. TN_TIMEOUT names who did not come within the
// communicator's timeout; TN_PEER_LOST. [all ranks; blocks; may fail]
Result<std::vector<std::string>> roll_call(detail::CommState& comm, const std::string& base,
                                           const std::string& own, const Occasion& occasion);
// `why` of a store that is lost or silent, with who asked for what; anything else as it is. [any-thread; does not block; cannot fail]
Status of_store(const CommOptions& options, const char* occasion, Status why);
// The failure that names them. [any-thread; does not block; cannot fail]
Status did_not_come(const CommOptions& options, std::span<const uint32_t> missing, const Occasion& occasion);

}  // namespace tenon::comm
