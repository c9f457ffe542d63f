/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h: extension "tn.profile/1": pairs the device's clock with the host's. */
#ifndef TENON_EXT_PROFILE_H
#define TENON_EXT_PROFILE_H

#include <tenon/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_PROFILE_ID "tn.profile/1"

typedef struct tn_profile_api {
  tn_header header;
  /* Reads both clocks as close together as possible: device ns as `timestamp` gives them, CLOCK_MONOTONIC ns, and how far
   * apart the two readings may be. [any-thread; may block; may fail] */
  int32_t (*clocks)(tn_device* device, uint64_t* device_ns, uint64_t* host_ns, uint64_t* uncertainty_ns,
                    tn_error* error);
} tn_profile_api;

#ifdef __cplusplus
}
#endif
#endif
