// SPDX-License-Identifier: Apache-2.0
// kernel.hpp: a compiled fragment, and the executors that run it.
//
// Under `one_shot_kernels` an executor runs once, as some runtimes have it; the kernel then prepares one for every launch,
// and no caller sees it.
// Invariant: an executor scribbles over the whole workspace it demanded, so whoever lent memory in use finds out.
#pragma once

#include "engine/card.hpp"
#include "kernels/program.hpp"

#include <tenon/kernel.h>

#include <atomic>

namespace tenon::sim {

class Stream;

class Executor {
 public:
  Executor(std::shared_ptr<const Program> program, uint64_t workspace, bool one_shot)
      : program_(std::move(program)), workspace_(workspace), one_shot_(one_shot) {}

  // TN_INTERNAL for the second run of one that is one-shot. [scheduler's thread; may fail]
  Status run(Card& card, std::span<std::byte* const> bindings, std::byte* workspace) const;

 private:
  std::shared_ptr<const Program> program_;
  uint64_t workspace_;
  bool one_shot_;
  mutable std::atomic<bool> spent_{false};
};

// A saved kernel: what it was made for. There is no code to keep; loading compiles again.
struct Saved {
  char maker[64];  // plugin, version, profile
  uint8_t identity[32];

  Saved(const Profile& profile, const tn_fragment& fragment);
};

class Kernel {
 public:
  Kernel(const tn_fragment& fragment, const Profile& profile);

  static uint64_t workspace_bytes(const Program& program, const Profile& profile) noexcept;
  uint64_t workspace() const noexcept { return workspace_; }

  void info(tn_kernel_info& out) const;
  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace);
  Result<uint64_t> save(std::span<std::byte> out);

 private:
  std::shared_ptr<const Executor> prepare() const;

  Saved saved_;
  std::shared_ptr<const Program> program_;
  uint64_t workspace_;
  bool one_shot_;
  std::shared_ptr<const Executor> shared_{};  // when executors may run many times
};

}  // namespace tenon::sim
