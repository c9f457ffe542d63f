// SPDX-License-Identifier: Apache-2.0
// mini_handles.hpp: what is behind the mini plugin's handles. Only its own files include it.
// Invariant: one mutex and one condition of the plugin guard all timelines.
#pragma once

#include "mini_plugin.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

struct tenon::test::MiniPlugin::State {
  MiniOptions options;
  tn_plugin descriptor{};
  tn_device_api device{};
  tn_stream_api stream{};
  tn_kernel_api kernel{};
  tn_comm_api comm{};
  tn_import_api import{};
  std::atomic<int> live{0}, enqueued{0};
  std::mutex mutex;
  std::condition_variable changed;
};

struct tn_device {
  tenon::test::MiniPlugin::State* plugin;
  uint32_t ordinal;
  std::atomic<int> children{0};
};

struct tn_memory {
  tn_device* device;
  std::byte* data;
  uint64_t bytes;
  uint32_t kind;
  bool owned;
};

struct tn_kernel {
  tn_device* device;
  std::vector<std::vector<uint32_t>> inputs;  // per node
  std::vector<uint32_t> outputs;              // per node
  std::vector<uint32_t> bound;                // fragment inputs, then outputs
  uint32_t tensor_count = 0;
  uint64_t elements = 0;
};

namespace tenon::test::mini {

struct Timeline {
  uint64_t newest = 0, reached = 0;
  std::map<uint64_t, uint64_t> times;
  std::set<uint64_t> promised;
  uint64_t failed_from = UINT64_MAX;  // the first value that a signal failed
  int32_t failure = TN_OK;
};

}  // namespace tenon::test::mini

struct tn_stream {
  tn_device* device;
  std::shared_ptr<tenon::test::mini::Timeline> line = std::make_shared<tenon::test::mini::Timeline>();
  std::deque<std::function<void()>> queue;
  bool ending = false;
  std::thread thread;
};

namespace tenon::test::mini {

inline int32_t fail(tn_error* error, int32_t code, const char* why, uint32_t flags = 0) {
  return write_error(Error{.code = code, .message = why, .domain = "mini", .flags = flags}, error);
}

inline std::byte* bytes_of(const tn_span& span) {
  if (span.bytes == 0) return nullptr;
  return span.space == TN_SPACE_MEMORY ? span.memory->data + span.offset
                                       : reinterpret_cast<std::byte*>(span.offset);
}

// A handle more, a handle less.
inline void adopt(tn_device* device) { ++device->children, ++device->plugin->live; }
inline void drop(tn_device* device) { --device->children, --device->plugin->live; }

// Runs `work` in stream order: at once on a synchronous plugin.
void enqueue(tn_stream* stream, std::function<void()> work);

tn_kernel_api kernel_table();
tn_comm_api comm_table();

}  // namespace tenon::test::mini
