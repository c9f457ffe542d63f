// SPDX-License-Identifier: Apache-2.0
// wrong_profile.hpp: "tn.profile/1" for the honest plugin, which has none. Its device's clock is the host's.
//
// Invariant: whoever exchanges nothing offers an extension that keeps its contract.
#pragma once

#include "wrong.hpp"

#include <tenon/ext/profile.h>

#include <time.h>

#include <cstring>

namespace wrong {

inline uint64_t clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline int32_t right_clocks(tn_device* /*device*/, uint64_t* device_ns, uint64_t* host_ns,
                            uint64_t* uncertainty_ns, tn_error* /*error*/) {
  *host_ns = clock_ns();
  *device_ns = clock_ns();
  *uncertainty_ns = *device_ns - *host_ns;
  return TN_OK;
}

inline tn_profile_api& profile_table() {
  static tn_profile_api table{.header = {sizeof(tn_profile_api), TN_ABI_MAJOR, TN_ABI_MINOR},
                              .clocks = &right_clocks};
  return table;
}

inline void offer_profile(Tables& all) {
  all.plugin.extension = [](const tn_plugin*, const char* id) -> const void* {
    if (id != nullptr && std::strcmp(id, TN_PROFILE_ID) == 0) return &profile_table();
    return right().plugin.extension(honest_descriptor(), id);
  };
}

}  // namespace wrong
