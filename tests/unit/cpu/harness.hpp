// SPDX-License-Identifier: Apache-2.0
// harness.hpp: the built CPU plugin behind its own entry, with handles that give themselves back.
//
// Tests speak the C ABI to the very library that is installed.
// Invariant: a call that fails where the test expects success ends the test case with the plugin's own words.
#pragma once

#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <tenon/abi.h>
#include <tenon/author/aliases.hpp>
#include <tenon/author/fragment_builder.hpp>
#include <tenon/result.hpp>

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cpu_test {

using tenon::author::FragmentBuilder;

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

// The host's options for the next device that is opened, and what the plugin logged.
inline std::map<std::string, std::string>& options() {
  static std::map<std::string, std::string> all;
  return all;
}
struct Log {
  std::mutex mutex;
  std::vector<std::string> lines;
};
inline Log& logged() {
  static Log log;
  return log;
}

inline const tn_plugin& plugin() {
  static const tn_plugin* const loaded = [] {
    const char* folder = std::getenv("TENON_TEST_PLUGIN_DIR");
    const std::string path = std::string(folder != nullptr ? folder : ".") + "/tenon-cpu.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) FAIL(std::string(dlerror()));
    const auto entry = reinterpret_cast<tn_plugin_entry_fn>(dlsym(library, TN_PLUGIN_ENTRY_NAME));
    if (entry == nullptr) throw std::runtime_error("the plugin does not export its entry");
    static tn_host host{};
    host.header = {sizeof host, TN_ABI_MAJOR, TN_ABI_MINOR};
    host.min_major = TN_ABI_MAJOR;
    host.name = "cpu test";
    host.log = [](void*, int32_t, const char*, const char* line) {
      const std::lock_guard lock(logged().mutex);
      logged().lines.emplace_back(line);
    };
    host.option = [](void*, const char*, const char* key) -> const char* {
      if (const auto set = options().find(key); set != options().end()) return set->second.c_str();
      return std::strcmp(key, "threads") == 0 ? std::getenv("TENON_TEST_THREADS") : nullptr;
    };
    tn_error error = tenon::no_error();
    const tn_plugin* made = entry(&host, &error);
    if (made == nullptr) FAIL(std::string(error.message));
    return made;
  }();
  return *loaded;
}

inline void end(tn_device* device) { plugin().device->close(device, nullptr); }
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
  ~Owned() {
    if (handle_ != nullptr) end(handle_);
  }
  T* get() const { return handle_; }
  operator T*() const { return handle_; }
  T* release() { return std::exchange(handle_, nullptr); }

 private:
  T* handle_ = nullptr;
};

using Device = Owned<tn_device>;
using Stream = Owned<tn_stream>;
using Memory = Owned<tn_memory>;
using Kernel = Owned<tn_kernel>;

inline Device open_device() {
  tn_device* device = nullptr;
  must([&](tn_error* e) { return plugin().device->open(&plugin(), 0, nullptr, &device, e); });
  return Device(device);
}

inline Stream make_stream(tn_device* device, const char* name = nullptr) {
  tn_stream_options options{.size = sizeof options, .priority = 0, .name = name, .next = nullptr};
  tn_stream* stream = nullptr;
  must([&](tn_error* e) { return plugin().stream->create(device, &options, &stream, e); });
  return Stream(stream);
}

inline Memory allocate(tn_device* device, uint64_t bytes, uint32_t kind = TN_MEMORY_DEVICE,
                       uint64_t alignment = 0) {
  tn_memory* memory = nullptr;
  must([&](tn_error* e) { return plugin().device->alloc(device, kind, bytes, alignment, &memory, e); });
  return Memory(memory);
}

inline std::byte* address(tn_memory* memory) {
  uint64_t at = 0;
  must([&](tn_error* e) { return plugin().device->address(memory, &at, e); });
  return reinterpret_cast<std::byte*>(at);
}

inline tn_span span(tn_memory* memory, uint64_t offset, uint64_t bytes) {
  return {.memory = memory, .offset = offset, .bytes = bytes, .space = TN_SPACE_MEMORY, .reserved = 0};
}
inline tn_span host_span(const void* data, uint64_t bytes) {
  return {.memory = nullptr,
          .offset = reinterpret_cast<uint64_t>(data),
          .bytes = bytes,
          .space = TN_SPACE_HOST_ADDRESS,
          .reserved = 0};
}

inline uint64_t record(tn_stream* stream, uint32_t flags = 0) {
  uint64_t value = 0;
  must([&](tn_error* e) { return plugin().stream->record(stream, flags, &value, e); });
  return value;
}
inline void wait(tn_stream* stream, tn_stream* other, uint64_t value) {
  must([&](tn_error* e) { return plugin().stream->wait(stream, other, value, e); });
}
inline Outcome try_sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns = TN_TIMEOUT_NEVER) {
  return outcome_of([&](tn_error* e) { return plugin().stream->sync(stream, value, timeout_ns, e); });
}
inline void drain(tn_stream* stream) {
  const uint64_t value = record(stream);
  must([&](tn_error* e) { return plugin().stream->sync(stream, value, TN_TIMEOUT_NEVER, e); });
}
inline void copy(tn_stream* stream, const tn_span& dst, const tn_span& src) {
  must([&](tn_error* e) { return plugin().stream->copy(stream, &dst, &src, e); });
}
inline void fill(tn_stream* stream, const tn_span& dst, uint64_t pattern, uint32_t bytes) {
  must([&](tn_error* e) { return plugin().stream->fill(stream, &dst, pattern, bytes, e); });
}
inline void host_call(tn_stream* stream, void (*call)(void*), void* argument) {
  must([&](tn_error* e) { return plugin().stream->host_call(stream, call, argument, e); });
}
inline uint64_t promise(tn_stream* stream) {
  uint64_t value = 0;
  must([&](tn_error* e) { return plugin().stream->promise(stream, &value, e); });
  return value;
}
inline Outcome signal(tn_stream* stream, uint64_t value, int32_t code = TN_OK) {
  return outcome_of([&](tn_error* e) { return plugin().stream->signal(stream, value, code, e); });
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
inline tn_kernel_info info(tn_kernel* kernel) {
  tn_kernel_info out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().kernel->info(kernel, &out, e); });
  return out;
}
inline void launch(tn_kernel* kernel, tn_stream* stream, std::span<const tn_span> bindings,
                   const tn_span* workspace = nullptr) {
  must([&](tn_error* e) {
    return plugin().kernel->launch(kernel, stream, bindings.data(), static_cast<uint32_t>(bindings.size()),
                                   workspace, e);
  });
}

}  // namespace cpu_test
