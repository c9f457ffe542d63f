// SPDX-License-Identifier: Apache-2.0
// honest.hpp: a small plugin that keeps the whole contract of level 0: host memory, one thread per stream, promises,
// host calls, timestamps. The wrong plugins are this one with a single function exchanged.
//
// Invariant: it conforms without one declaration, so whatever a case says about a wrong plugin is about its one mistake.
#pragma once

#include "honest_kernel.hpp"

#include <tenon/author/plugin.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace honest {

using tenon::Error;
using tenon::Result;
using tenon::Status;

class Memory {
 public:
  Memory(void* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
  uint64_t bytes() const { return bytes_; }
  Result<uint64_t> address() { return reinterpret_cast<uintptr_t>(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  uint64_t bytes_;
};

// The part of a stream that others may wait for; it outlives the stream.
struct Timeline {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t issued = 0, reached = 0;
  std::set<uint64_t> promised;         // not yet signalled
  std::map<uint64_t, uint64_t> times;  // of values recorded with TIMED, in ns
  int32_t failure = TN_OK;
  bool told = false;

  void reach(uint64_t value, bool timed);
  bool await(uint64_t value, uint64_t timeout_ns);
};

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  Status copy(const tn_span& dst, const tn_span& src);
  Status copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape);
  Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes);
  Result<uint64_t> record(uint32_t flags);
  Status wait(Stream& other, uint64_t value);
  Result<uint64_t> completed();
  Status sync(uint64_t value, uint64_t timeout_ns);
  Result<uint64_t> timestamp(uint64_t value);
  Status host_call(void (*call)(void*), void* argument);
  Result<uint64_t> promise();
  Status signal(uint64_t value, int32_t code);
  Status finish(uint32_t mode);
  // Waits until all that was enqueued is done.
  void drain();
  Status enqueue(std::function<void()> work);

 private:
  Status failure();
  void run();
  static void lose();
  void stop(bool drop);

  std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::atomic<bool> abandoned_{false};
  std::thread thread_;
};

// Where a span of the device lies in this process.
std::byte* place(const tn_span& span);

// Trouble that the host's options order: the device is lost at command `lost_at`, allocation `oom_at` fails. 0: never.
struct Trouble {
  std::atomic<uint64_t> lost_at{0}, oom_at{0}, commands{0}, allocations{0};
  std::atomic<bool> lost{false};
};
Trouble& trouble();

// A tensor in a kernel's loop.
struct Operand {
  uint32_t rank = 0;
  std::array<int64_t, TN_MAX_RANK> dims{}, strides{};
  uint64_t elements = 0;
};

// Where a tensor lies: a binding's number, or an offset in the workspace.
struct Slot {
  bool bound = false;
  uint64_t at = 0;
};

struct Node {
  uint32_t op = TN_OP_NONE;
  std::vector<Operand> inputs{};
  Operand output{};
  std::vector<Slot> from{};
  Slot to{};

  // Computes it as op `as`.
  void run(const Arithmetic& how, uint32_t as, const std::vector<const float*>& in, float* out) const;
};

struct Kernel {
  std::vector<Node> nodes{};
  uint64_t workspace = 0;             // bytes of inner values
  std::array<std::byte, 40> saved{};  // a mark, and the identity of its fragment: there is no code to keep

  void info(tn_kernel_info& out) const;
  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace_span);
  Result<uint64_t> save(std::span<std::byte> out) const;
  void run(const std::vector<std::byte*>& at, std::byte* inner) const;
};

class Device {
 public:
  void limits(tn_device_limits& out) const;
  Status memory_info(tn_memory_info& out);
  Result<std::unique_ptr<Memory>> allocate(uint32_t kind, uint64_t bytes, uint64_t alignment);
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& options);
  Status supports(const tn_fragment& fragment, tn_support& out);
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment& fragment, const tn_compile_options& options);
  Result<std::unique_ptr<Kernel>> load(const tn_fragment& fragment, std::span<const std::byte> saved);
};

struct Plugin {
  static constexpr tenon::author::Identity identity{
      .name = "honest",
      .vendor = "Tenon tests",
      .version = "0.1.0",
      .features = TN_FEATURE_ADDRESSABLE | TN_FEATURE_CROSS_DEVICE_WAIT | TN_FEATURE_HOST_MEMORY |
                  TN_FEATURE_UNLOADABLE};
  using Device = honest::Device;
  using Memory = honest::Memory;
  using Stream = honest::Stream;
  using Kernel = honest::Kernel;
  explicit Plugin(tenon::author::Host host);
  Result<uint32_t> device_count() { return 1; }
  Status describe(uint32_t ordinal, tn_device_info& out);
  Result<std::unique_ptr<Device>> open(uint32_t ordinal, const tn_device_options& options);
  Status quiesce();
};

}  // namespace honest
