// SPDX-License-Identifier: Apache-2.0
// profile_clocks_run_apart.cpp: the device's clock is told in units that are twice as long.
#include "wrong_profile.hpp"

WRONG_PLUGIN(tables) {
  wrong::offer_profile(tables);
  wrong::profile_table().clocks = [](tn_device* d, uint64_t* device_ns, uint64_t* host_ns,
                                     uint64_t* uncertainty_ns, tn_error* e) {
    const int32_t code = wrong::right_clocks(d, device_ns, host_ns, uncertainty_ns, e);
    *device_ns /= 2;
    return code;
  };
}
