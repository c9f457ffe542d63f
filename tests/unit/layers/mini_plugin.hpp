// SPDX-License-Identifier: Apache-2.0
// mini_plugin.hpp: a small plugin inside the test's own process: C tables over host memory, for layers to stand before.
//
// Synchronous streams run work inside the call, so a planted hazard harms nobody; asynchronous ones have a thread each.
// Invariant: it trusts its caller: what a layer should have refused would crash here, or show in `live`.
#pragma once

#include <tenon/abi.h>
#include <tenon/result.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::test {

struct MiniOptions {
  std::string name = "mini";
  uint64_t features = 0;
  bool asynchronous = false;     // has promises, too
  uint64_t workspace_bytes = 0;  // of every kernel
  bool has_import = false;
  bool has_comm = false;
};

class MiniPlugin {
 public:
  explicit MiniPlugin(MiniOptions options = {});
  ~MiniPlugin();
  const tn_plugin& descriptor() const;
  // Handles that nobody ended. [any-thread]
  int live() const;
  // Calls of `copy`, `fill` and `launch` that arrived. [any-thread]
  int enqueued() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// Short ways to make calls through a descriptor: each fails the test case when the call does.
class Caller {
 public:
  explicit Caller(const tn_plugin* plugin) : plugin_(*plugin) {}

  tn_device* open(uint32_t ordinal = 0) const;
  tn_memory* alloc(tn_device* device, uint64_t bytes, uint32_t kind = TN_MEMORY_DEVICE) const;
  tn_stream* stream(tn_device* device, const char* name = nullptr) const;
  // out = in0 + in1 + …, f32[n]; `in_place` declares output 0 an alias of input 0.
  tn_kernel* add(tn_device* device, uint64_t n, uint32_t inputs = 2, const char* name = "add",
                 bool in_place = false) const;
  uint64_t record(tn_stream* stream) const;
  void wait(tn_stream* stream, tn_stream* other, uint64_t value) const;
  void sync(tn_stream* stream) const;
  void copy(tn_stream* stream, tn_span dst, tn_span src) const;
  void fill(tn_stream* stream, tn_span dst, float value) const;
  void launch(tn_kernel* kernel, tn_stream* stream, std::vector<tn_span> bindings,
              tn_span workspace = {}) const;
  void free(tn_memory* memory) const;
  void destroy(tn_stream* stream) const;
  void destroy(tn_kernel* kernel) const;
  void close(tn_device* device) const;

  const tn_plugin& plugin() const { return plugin_; }

 private:
  const tn_plugin& plugin_;
};

tn_span span_of(tn_memory* memory, uint64_t offset, uint64_t bytes);
tn_span host_of(const void* data, uint64_t bytes);
template <class T>
tn_span host_of(std::vector<T>& data) {
  return host_of(data.data(), data.size() * sizeof(T));
}

}  // namespace tenon::test
