// SPDX-License-Identifier: Apache-2.0
// wrong_capture.hpp: how a plugin with wrong captures is written: the cpu plugin's "tn.capture/1", with a mistake put in.
//
//   #include "wrong_capture.hpp"
//   WRONG_CAPTURE(captures) { captures.replay = […](…) { … wrong::right_captures().replay(…) … }; }
//
// Invariant: everything that is not exchanged is the cpu plugin's, handles included.
#pragma once

#include "wrong_cpu.hpp"

#include <tenon/ext/capture.h>

namespace wrong {

inline const tn_capture_api& right_captures() {
  return *static_cast<const tn_capture_api*>(right().plugin.extension(honest_descriptor(), TN_CAPTURE_ID));
}

inline tn_capture_api& spoilt_captures() {
  static tn_capture_api table;
  return table;
}

inline void show_captures(Tables& all) {
  spoilt_captures() = right_captures();
  all.plugin.extension = [](const tn_plugin*, const char* id) -> const void* {
    if (id != nullptr && std::strcmp(id, TN_CAPTURE_ID) == 0) return &spoilt_captures();
    return right().plugin.extension(honest_descriptor(), id);
  };
}

}  // namespace wrong

#define WRONG_CAPTURE(captures)                                                                 \
  static void wrong_spoil_captures(tn_capture_api& captures);                                   \
  extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) { \
    return ::wrong::enter_cpu(host, error, [](::wrong::Tables& all) {                           \
      ::wrong::show_captures(all);                                                              \
      wrong_spoil_captures(::wrong::spoilt_captures());                                         \
    });                                                                                         \
  }                                                                                             \
  static void wrong_spoil_captures([[maybe_unused]] tn_capture_api& captures)
