// SPDX-License-Identifier: Apache-2.0
// claims.hpp: what a descriptor claims by a bit or by an id, and the case that holds a plugin to each claim.
//
// Invariant: every TN_FEATURE_… of plugin.h and every extension of ext/ has a row, and every row names a case that exists:
// tests/unit/conformance/claims_test.cpp reads the headers and says so.
#pragma once

#include <tenon/abi.h>

namespace tenon::conform {

struct FeatureClaim {
  uint64_t bit;
  const char* name;     // as in plugin.h, without its prefix
  const char* held_by;  // the case that fails where the bit is set and does not hold
};

inline constexpr FeatureClaim feature_claims[] = {
    {TN_FEATURE_ADDRESSABLE, "ADDRESSABLE", "copy: by device address where ADDRESSABLE is declared"},
    {TN_FEATURE_CROSS_DEVICE_WAIT, "CROSS_DEVICE_WAIT",
     "feature: CROSS_DEVICE_WAIT lets a stream wait for one of another device"},
    {TN_FEATURE_FRAGMENT_COLLECTIVES, "FRAGMENT_COLLECTIVES",
     "feature: FRAGMENT_COLLECTIVES computes an all_reduce among nodes"},
    {TN_FEATURE_SYNCHRONOUS, "SYNCHRONOUS", "feature: SYNCHRONOUS completes work inside the call"},
    {TN_FEATURE_WHOLE_GRAPH, "WHOLE_GRAPH", "feature: WHOLE_GRAPH refuses every single op"},
    {TN_FEATURE_UNLOADABLE, "UNLOADABLE",
     "leaving: loaded, used and unloaded again and again where UNLOADABLE is declared"},
    {TN_FEATURE_HOST_MEMORY, "HOST_MEMORY", "feature: HOST_MEMORY gives addresses that work on both sides"}};

struct ExtensionClaim {
  const char* id;
  const char* held_by;
};

inline constexpr ExtensionClaim extension_claims[] = {
    {TN_CAPTURE_ID, "capture: work is collected and not run, and each replay runs it on what is there"},
    {TN_IMPORT_ID, "import: a native stream is borrowed, and covers the work that it holds"},
    {TN_IPC_ID, "ipc: another process opens the memory, reads it and writes it"},
    {TN_PROFILE_ID, "profile: the two clocks are paired as closely as they say"}};

// What else a table claims by being there: private layouts.
inline constexpr const char* layouts_held_by =
    "layout: every private layout takes what is put in, and gives it back";

}  // namespace tenon::conform
