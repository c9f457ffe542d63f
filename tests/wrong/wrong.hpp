// SPDX-License-Identifier: Apache-2.0
// wrong.hpp: how a wrong plugin is written: the honest one's tables, with a mistake put in.
//
//   #include "wrong.hpp"
//   WRONG_PLUGIN(tables) { tables.stream.copy = […](…) { … tables().stream.copy(…) … }; }
//
// Only the C headers are included, so that thirty wrong plugins build as fast as one.
// Invariant: everything that is not exchanged is the honest plugin's, handles included.
#pragma once

#include <tenon/abi.h>

// The honest plugin's entry; compiled once, in honest.cpp.
const tn_plugin* honest_entry(const tn_host* host, tn_error* error);

namespace wrong {

struct Tables {
  tn_plugin plugin{};
  tn_device_api device{};
  tn_stream_api stream{};
  tn_kernel_api kernel{};
  tn_comm_api comm{};  // empty where the right plugin has none
};

// The honest tables, for what a mistake still does right.
inline Tables& right() {
  static Tables tables;
  return tables;
}

// A launch that comes back when it has run.
inline int32_t launch_and_wait(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t count,
                               const tn_span* workspace, tn_error* error) {
  uint64_t value = 0;
  const int32_t code = right().kernel.launch(kernel, stream, bindings, count, workspace, error);
  if (code != TN_OK || right().stream.record(stream, 0, &value, error) != TN_OK) return code;
  return right().stream.sync(stream, value, TN_TIMEOUT_NEVER, error);
}

inline const tn_plugin*& honest_descriptor() {
  static const tn_plugin* descriptor = nullptr;
  return descriptor;
}

// Copies the honest plugin's tables; functions that name the plugin are passed its own descriptor.
inline Tables copy_of(const tn_plugin& given) {
  honest_descriptor() = &given;
  Tables out{.plugin = given, .device = *given.device, .stream = *given.stream, .kernel = *given.kernel};
  if (given.comm != nullptr) out.comm = *given.comm;
  right() = out;
  out.device.count = [](const tn_plugin*, uint32_t* count, tn_error* e) {
    return right().device.count(honest_descriptor(), count, e);
  };
  out.device.info = [](const tn_plugin*, uint32_t ordinal, tn_device_info* info, tn_error* e) {
    return right().device.info(honest_descriptor(), ordinal, info, e);
  };
  out.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                       tn_error* e) { return right().device.open(honest_descriptor(), ordinal, o, d, e); };
  out.plugin.extension = [](const tn_plugin*, const char* id) {
    return right().plugin.extension(honest_descriptor(), id);
  };
  out.plugin.quiesce = [](const tn_plugin*, tn_error* e) {
    return right().plugin.quiesce(honest_descriptor(), e);
  };
  out.plugin.shutdown = [](const tn_plugin*, tn_error* e) {
    return right().plugin.shutdown(honest_descriptor(), e);
  };
  return out;
}

// The descriptor of a right plugin with a mistake put in; null stays null.
inline const tn_plugin* spoilt(const tn_plugin* given, void (*spoil)(Tables&)) {
  if (given == nullptr) return nullptr;
  static Tables tables = [&] {
    Tables out = copy_of(*given);
    spoil(out);
    return out;
  }();
  tables.plugin.device = &tables.device;
  tables.plugin.stream = &tables.stream;
  tables.plugin.kernel = &tables.kernel;
  if (given->comm != nullptr) tables.plugin.comm = &tables.comm;
  return &tables.plugin;
}

}  // namespace wrong

#define WRONG_PLUGIN(tables)                                                                    \
  static void wrong_spoil(::wrong::Tables& tables);                                             \
  extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) { \
    return ::wrong::spoilt(honest_entry(host, error), &wrong_spoil);                            \
  }                                                                                             \
  static void wrong_spoil([[maybe_unused]] ::wrong::Tables& tables)
