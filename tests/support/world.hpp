// SPDX-License-Identifier: Apache-2.0
// world.hpp: a built plugin under chosen options, met through its own entry, and handles that give themselves back.
//
// A PluginWorld enters the plugin and shuts it down again, so one test may meet several options in turn.
// Invariant: one of them lives at a time, and outlives every handle made in it. A call that fails where the test expects
// success ends the test case with the plugin's own words.
#pragma once

#include "support/skip.hpp"

#include <tenon/abi.h>
#include <tenon/ext/capture.h>
#include <tenon/author/fragment_builder.hpp>
#include <tenon/result.hpp>

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon::test {

using author::FragmentBuilder;
using Options = std::map<std::string, std::string>;

// One C call's outcome: its code, and the words when it failed.
struct Outcome {
  int32_t code = TN_OK;
  tn_error error = tenon::no_error();
  bool ok() const { return code == TN_OK; }
  std::string message() const { return error.message; }
  bool says(const char* words) const { return message().find(words) != std::string::npos; }
};

template <class Call>
Outcome outcome_of(Call&& call) {
  Outcome out;
  out.code = call(&out.error);
  return out;
}

// Ends the test case when the call fails.
template <class Call>
void must(Call&& call) {
  const Outcome out = outcome_of(call);
  if (!out.ok()) FAIL("code " << out.code << ": " << out.message());
}

inline const tn_plugin* current = nullptr;
inline const tn_plugin& plugin() { return *current; }

inline void end(tn_device* device) {
  must([&](tn_error* e) { return plugin().device->close(device, e); });
}
inline void end(tn_stream* stream) { plugin().stream->destroy(stream, TN_DESTROY_COMPLETE, nullptr); }
inline void end(tn_memory* memory) { plugin().device->free(memory, nullptr); }
inline void end(tn_kernel* kernel) { plugin().kernel->destroy(kernel, nullptr); }

// A handle that ends with its owner.
template <class T>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() { reset(); }
  operator T*() const { return handle_; }
  T* release() { return std::exchange(handle_, nullptr); }
  void reset() {
    if (handle_ != nullptr) end(release());
  }

 private:
  T* handle_ = nullptr;
};

using Device = Owned<tn_device>;
using Stream = Owned<tn_stream>;
using Memory = Owned<tn_memory>;
using Kernel = Owned<tn_kernel>;

class PluginWorld {
 public:
  // Enters plugin `name`.
  PluginWorld(const std::string& name, Options options) : options_(std::move(options)) {
    host_.header = {sizeof host_, TN_ABI_MAJOR, TN_ABI_MINOR};
    host_.min_major = TN_ABI_MAJOR;
    host_.name = "a test";
    host_.context = this;
    host_.option = [](void* context, const char*, const char* key) -> const char* {
      const auto& options_here = static_cast<PluginWorld*>(context)->options_;
      const auto found = options_here.find(key);
      return found == options_here.end() ? nullptr : found->second.c_str();
    };
    tn_error error = tenon::no_error();
    current = entry(name)(&host_, &error);
    if (current == nullptr) FAIL(std::string(error.message));
  }
  PluginWorld(const PluginWorld&) = delete;
  PluginWorld& operator=(const PluginWorld&) = delete;
  ~PluginWorld() {
    CHECK(outcome_of([](tn_error* e) { return plugin().shutdown(&plugin(), e); }).message() == "");
    current = nullptr;
  }

 private:
  static tn_plugin_entry_fn entry(const std::string& name) {
    const char* folder = std::getenv("TENON_TEST_PLUGIN_DIR");
    const std::string path = std::string(folder != nullptr ? folder : ".") + "/tenon-" + name + ".so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) FAIL(std::string(dlerror()));
    const auto found = reinterpret_cast<tn_plugin_entry_fn>(dlsym(library, TN_PLUGIN_ENTRY_NAME));
    REQUIRE((found != nullptr));
    return found;
  }

  Options options_;
  tn_host host_{};
};

inline Outcome try_open(Device& out, uint32_t ordinal = 0) {
  tn_device* device = nullptr;
  Outcome said =
      outcome_of([&](tn_error* e) { return plugin().device->open(&plugin(), ordinal, nullptr, &device, e); });
  if (said.ok()) out = Device(device);
  return said;
}
inline Device open_device(uint32_t ordinal = 0) {
  Device out;
  const Outcome said = try_open(out, ordinal);
  if (!said.ok()) FAIL(said.message());
  return out;
}

inline Outcome try_stream(tn_device* device, Stream& out) {
  tn_stream* stream = nullptr;
  Outcome said =
      outcome_of([&](tn_error* e) { return plugin().stream->create(device, nullptr, &stream, e); });
  if (said.ok()) out = Stream(stream);
  return said;
}
inline Stream make_stream(tn_device* device) {
  Stream out;
  const Outcome said = try_stream(device, out);
  if (!said.ok()) FAIL(said.message());
  return out;
}

inline Outcome try_allocate(tn_device* device, uint64_t bytes, Memory& out,
                            uint32_t kind = TN_MEMORY_DEVICE) {
  tn_memory* memory = nullptr;
  Outcome said =
      outcome_of([&](tn_error* e) { return plugin().device->alloc(device, kind, bytes, 0, &memory, e); });
  if (said.ok()) out = Memory(memory);
  return said;
}
inline Memory allocate(tn_device* device, uint64_t bytes, uint32_t kind = TN_MEMORY_DEVICE) {
  Memory out;
  const Outcome said = try_allocate(device, bytes, out, kind);
  if (!said.ok()) FAIL(said.message());
  return out;
}
inline uint64_t address(tn_memory* memory) {
  uint64_t at = 0;
  must([&](tn_error* e) { return plugin().device->address(memory, &at, e); });
  return at;
}

inline tn_span span(tn_memory* memory, uint64_t offset, uint64_t bytes) {
  return {.memory = memory, .offset = offset, .bytes = bytes, .space = TN_SPACE_MEMORY, .reserved = 0};
}
inline tn_span at_address(uint64_t address, uint64_t bytes, uint32_t space = TN_SPACE_DEVICE_ADDRESS) {
  return {.memory = nullptr, .offset = address, .bytes = bytes, .space = space, .reserved = 0};
}
inline tn_span host_span(const void* data, uint64_t bytes) {
  return at_address(reinterpret_cast<uint64_t>(data), bytes, TN_SPACE_HOST_ADDRESS);
}

inline Outcome try_copy(tn_stream* stream, const tn_span& dst, const tn_span& src) {
  return outcome_of([&](tn_error* e) { return plugin().stream->copy(stream, &dst, &src, e); });
}
inline void copy(tn_stream* stream, const tn_span& dst, const tn_span& src) {
  const Outcome said = try_copy(stream, dst, src);
  if (!said.ok()) FAIL(said.message());
}
inline Outcome try_fill(tn_stream* stream, const tn_span& dst, uint64_t pattern, uint32_t bytes = 1) {
  return outcome_of([&](tn_error* e) { return plugin().stream->fill(stream, &dst, pattern, bytes, e); });
}
inline void fill(tn_stream* stream, const tn_span& dst, uint64_t pattern, uint32_t bytes = 1) {
  const Outcome said = try_fill(stream, dst, pattern, bytes);
  if (!said.ok()) FAIL(said.message());
}
inline Outcome try_record(tn_stream* stream, uint64_t& value, uint32_t flags = 0) {
  return outcome_of([&](tn_error* e) { return plugin().stream->record(stream, flags, &value, e); });
}
inline uint64_t record(tn_stream* stream, uint32_t flags = 0) {
  uint64_t value = 0;
  const Outcome said = try_record(stream, value, flags);
  if (!said.ok()) FAIL(said.message());
  return value;
}
inline void wait(tn_stream* stream, tn_stream* other, uint64_t value) {
  must([&](tn_error* e) { return plugin().stream->wait(stream, other, value, e); });
}
inline Outcome try_sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns = TN_TIMEOUT_NEVER) {
  return outcome_of([&](tn_error* e) { return plugin().stream->sync(stream, value, timeout_ns, e); });
}
inline uint64_t query(tn_stream* stream) {
  uint64_t value = 0;
  must([&](tn_error* e) { return plugin().stream->query(stream, &value, e); });
  return value;
}
inline void drain(tn_stream* stream) {
  const Outcome said = try_sync(stream, record(stream));
  if (!said.ok()) FAIL(said.message());
}

// The bytes of a span, as the stream finds them now.
inline std::vector<unsigned char> download(tn_stream* stream, const tn_span& from) {
  std::vector<unsigned char> out(from.bytes);
  copy(stream, host_span(out.data(), out.size()), from);
  drain(stream);
  return out;
}

inline tn_support supports(tn_device* device, const tn_fragment& fragment) {
  tn_support out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().kernel->supports(device, &fragment, &out, e); });
  return out;
}
inline Kernel compile(tn_device* device, const tn_fragment& fragment) {
  tn_kernel* kernel = nullptr;
  must([&](tn_error* e) { return plugin().kernel->compile(device, &fragment, nullptr, &kernel, e); });
  return Kernel(kernel);
}
inline uint64_t workspace_bytes(tn_kernel* kernel) {
  tn_kernel_info out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().kernel->info(kernel, &out, e); });
  return out.workspace_bytes;
}
inline void launch(tn_kernel* kernel, tn_stream* stream, std::span<const tn_span> bindings,
                   const tn_span& workspace) {
  must([&](tn_error* e) {
    return plugin().kernel->launch(kernel, stream, bindings.data(), static_cast<uint32_t>(bindings.size()),
                                   &workspace, e);
  });
}

// Runs a fragment whose tensors are dense and of one type: arrays in, one array out.
template <class T>
std::vector<T> run(tn_device* device, const tn_fragment& fragment, const std::vector<std::vector<T>>& inputs,
                   size_t count) {
  const Stream stream = make_stream(device);
  const Kernel kernel = compile(device, fragment);
  std::vector<Memory> memories;
  std::vector<tn_span> bindings;
  const auto bind = [&](uint64_t bytes) {
    memories.push_back(allocate(device, bytes));
    bindings.push_back(span(memories.back(), 0, bytes));
  };
  for (const auto& input : inputs) {
    bind(input.size() * sizeof(T));
    copy(stream, bindings.back(), host_span(input.data(), input.size() * sizeof(T)));
  }
  bind(count * sizeof(T));
  const Memory room = allocate(device, workspace_bytes(kernel));
  launch(kernel, stream, bindings, span(room, 0, workspace_bytes(kernel)));
  std::vector<T> out(count);
  copy(stream, host_span(out.data(), count * sizeof(T)), bindings.back());
  drain(stream);
  return out;
}

}  // namespace tenon::test
