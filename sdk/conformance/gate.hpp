// SPDX-License-Identifier: Apache-2.0
// gate.hpp: holds streams back until a case has seen what must not happen before.
//
// Invariant: a gate opens at the latest when it goes out of scope, so it stands after the streams it holds; a host call
// of a plugin that runs it inside the call gives up by itself and is told as "not asynchronous".
#pragma once

#include "conformance/objects.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace tenon::conform {

class Gate {
 public:
  enum class Means { any, promise, host_call };

  // Makes a closed gate; leaves the case as unsupported where the plugin offers no way to hold a stream.
  // [case's thread; may fail]
  static Result<Gate> make(Context& t, const Device& device, Means means = Means::any);
  Gate(Gate&&) noexcept = default;
  Gate& operator=(Gate&&) noexcept = default;
  ~Gate() { open(); }

  // What is enqueued on `stream` from now on starts only after `open`. [stream's thread; may fail]
  Status hold(const Stream& stream);
  // Lets all go. A second call does nothing. [any-thread]
  void open();
  const char* means() const noexcept { return state_ ? "host_call" : "promise"; }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    int passed = 0;  // host calls that returned
  };
  static void block(void* state);
  explicit Gate(Context& t) : t_(&t) {}

  Context* t_;
  Stream promises_{};
  uint64_t promised_ = 0;
  bool opened_ = false;
  std::shared_ptr<State> state_{};
};

// Opens a gate from another thread, a moment after it was made, or when told to: for calls that may block until then.
class Opener {
 public:
  explicit Opener(Gate& gate);
  Opener(const Opener&) = delete;
  Opener& operator=(const Opener&) = delete;
  ~Opener() { open(); }
  // [case's thread]
  void open();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool now_ = false;
  std::thread thread_;
};

}  // namespace tenon::conform
