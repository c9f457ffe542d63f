// SPDX-License-Identifier: Apache-2.0
// defaults.hpp: what each optional function does when a plugin has none, table by table.
//
// Invariant: a null slot here is a required one; the text in the ABI's headers ("NULL: …") and these functions agree.
#pragma once

#include <tenon/abi.h>

namespace tenon::plugin {

extern const tn_device_api device_defaults;
extern const tn_stream_api stream_defaults;
extern const tn_kernel_api kernel_defaults;
extern const tn_comm_api comm_defaults;

// Whole tables for a plugin without the interface: every function refuses, `supports` says no with the reason.
extern const tn_kernel_api no_kernels;
extern const tn_comm_api no_comms;

}  // namespace tenon::plugin
