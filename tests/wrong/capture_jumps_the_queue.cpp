// SPDX-License-Identifier: Apache-2.0
// capture_jumps_the_queue.cpp: a replay runs at once, whatever its stream still holds.
#include "wrong_capture.hpp"

#include <map>
#include <mutex>

namespace {

// Streams by device: a replay takes one of its own.
struct Known {
  std::mutex mutex;
  std::map<tn_stream*, tn_device*> device_of;
};
Known& known() {
  static Known* const all = new Known;  // outlives whatever the process destroys at its end
  return *all;
}

int32_t create(tn_device* device, const tn_stream_options* options, tn_stream** stream, tn_error* e) {
  const int32_t code = wrong::right().stream.create(device, options, stream, e);
  const std::lock_guard lock(known().mutex);
  if (code == TN_OK) known().device_of[*stream] = device;
  return code;
}

int32_t replay(tn_capture* capture, tn_stream* stream, tn_error* e) {
  if (capture == nullptr || stream == nullptr) return wrong::right_captures().replay(capture, stream, e);
  tn_device* device = nullptr;
  {
    const std::lock_guard lock(known().mutex);
    device = known().device_of[stream];
  }
  tn_stream* own = nullptr;
  const int32_t code = wrong::right().stream.create(device, nullptr, &own, e);
  if (code != TN_OK) return code;
  wrong::right_captures().replay(capture, own, e);
  return wrong::right().stream.destroy(own, TN_DESTROY_COMPLETE, e);
}

}  // namespace

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  return wrong::enter_cpu(host, error, [](wrong::Tables& all) {
    all.stream.create = &create;
    wrong::show_captures(all);
    wrong::spoilt_captures().replay = &replay;
  });
}
