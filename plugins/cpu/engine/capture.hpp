// SPDX-License-Identifier: Apache-2.0
// capture.hpp: commands that are collected instead of queued, and run as one.
//
// Commands that streams enqueue in turn stand in an order in which they may run, so a capture is one list, run by one worker.
// Invariant: a list does not change once it can be replayed; commands that refer to it hold it.
#pragma once

#include "command.hpp"

#include <tenon/author/recording.hpp>

#include <span>

namespace tenon::cpu {

// A command with what does not fit it.
struct Taped {
  Command command{};
  std::unique_ptr<std::byte* []> bindings {};
};
using Recording = author::Recording<Taped>;

// What `end` gives out; alive as long as it or a replay.
class Tape {
 public:
  explicit Tape(std::shared_ptr<const Recording> recording) : recording_(std::move(recording)) {}
  std::span<const Taped> steps() const noexcept { return recording_->steps(); }

  void retain() const noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~Tape() = default;
  std::shared_ptr<const Recording> recording_;
  mutable std::atomic<uint32_t> holders_{1};
};

// The caller's hold on a tape.
class Capture {
 public:
  explicit Capture(std::shared_ptr<const Recording> recording) : tape_(new Tape(std::move(recording))) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { tape_->release(); }
  const Tape& tape() const noexcept { return *tape_; }

 private:
  const Tape* tape_;
};

}  // namespace tenon::cpu
