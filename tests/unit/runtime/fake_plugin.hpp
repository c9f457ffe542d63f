// SPDX-License-Identifier: Apache-2.0
// fake_plugin.hpp: a plugin inside the test, whose streams stand still or fail when the test says so.
//
// Invariant: work runs inside calls of the test or of the host, never on a thread of its own, so every order a test asks
// for is the order that happens. One mutex guards all fakes, so waits may lead from one to another.
#pragma once

#include "plugin/tables.hpp"

#include <tenon/device.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace tenon::test {

struct FakeOptions {
  std::string name = "fake";
  uint64_t features = TN_FEATURE_ADDRESSABLE;
  uint32_t devices = 2;
  uint32_t kind = TN_DEVICE_OTHER;
  uint64_t memory_bytes = 256u << 20;
  uint64_t alignment = 256;
  bool promises = true;
  bool strided = true;
  bool host_calls = true;
  bool timestamps = true;
  bool peers = false;
  bool managed = false;
  bool query_lags = false;  // query knows what a sync was told
  uint64_t workspace_bytes = 0;
};

// How often the host called; the names are those of the ABI.
struct FakeCalls {
  std::atomic<uint64_t> open{0}, close{0}, alloc{0}, free{0}, create{0}, destroy{0}, abandon{0}, copy{0},
      copy_strided{0}, fill{0}, record{0}, wait{0}, query{0}, sync{0}, blocking_sync{0}, promise{0},
      signal{0}, supports{0}, compile{0}, launch{0};
};

class FakePlugin {
 public:
  explicit FakePlugin(FakeOptions options = {});
  FakePlugin(const FakePlugin&) = delete;
  FakePlugin& operator=(const FakePlugin&) = delete;
  ~FakePlugin();

  // Opens a device as the runtime would; REQUIREs that it opens.
  Device open(uint32_t ordinal = 0, double reserve_fraction = 1);
  const tn_plugin* descriptor() const;
  FakeCalls& calls();

  // The stream runs nothing more until released.
  static void hold(const Stream& stream);
  static void release(const Stream& stream);
  // Runs `count` commands of a held stream.
  static void step(const Stream& stream, uint64_t count = 1);
  // The next command fails when it runs.
  static void fail_next(const Stream& stream, int32_t code, const std::string& message);

  // The next allocations of device memory fail with this code; TN_OK lets them through again.
  void refuse_memory(int32_t code);
  uint64_t used_bytes() const;
  // What `supports` and `compile` answer, and what runs inside `compile`.
  void refuse_fragments(const std::string& reason);
  void while_compiling(std::function<void()> body);
  // Handles that live: devices, memories, streams and kernels.
  uint64_t live() const;
  // Commands that met memory which was freed already.
  uint64_t used_after_free() const;
  // Lines the host logged for its devices.
  std::string logged() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tenon::test
