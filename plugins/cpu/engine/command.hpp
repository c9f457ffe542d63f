// SPDX-License-Identifier: Apache-2.0
// command.hpp: one entry of a stream's queue: what to do, with everything it needs copied inside.
//
// Addresses are resolved before a command is queued, so that a worker looks nothing up.
// Invariant: two cache lines, trivially copyable, and no ownership but the timeline that a Wait retains and the tape that a
// Replay does.
#pragma once

#include "team.hpp"
#include "timeline.hpp"

namespace tenon::cpu {

// Something compiled that a worker can run. Immutable: one runs on several streams at once.
class Runnable {
 public:
  virtual ~Runnable() = default;
  // `bindings` are addresses, inputs then outputs; `workspace` is this run's own.
  // [worker thread; blocks; may fail]
  virtual Status run(std::byte* const* bindings, std::byte* workspace, const Team& team) const = 0;
};

// Work whose end others count on, so it hears of its fate: a group of collectives.
class Errand {
 public:
  virtual ~Errand() = default;
  // [worker thread; blocks; may fail, does not throw]
  virtual Status run() = 0;
  // Called instead: the stream has failed, or was abandoned. [worker thread; blocks; cannot fail]
  virtual void skip() noexcept = 0;
};

class Tape;

struct LaunchCommand {
  static constexpr uint32_t inline_bindings = 11;
  const Runnable* runnable;
  std::byte* workspace;
  // The array below, or a piece of the queue's arena; NULL in a capture: the array below.
  std::byte* const* bindings;
  std::byte* own[inline_bindings];
};
struct CopyCommand {
  std::byte* dst;
  const std::byte* src;
  uint64_t bytes;
};
struct FillCommand {
  std::byte* dst;
  uint64_t bytes;
  uint64_t pattern;
  uint64_t pattern_bytes;
};
struct BoxCommand {
  std::byte* dst;
  const std::byte* src;
  uint64_t extent[4];  // extent[3] in bytes; a lower rank has leading ones
  uint64_t dst_stride[3];
  uint64_t src_stride[3];
};
struct WaitCommand {
  Timeline* timeline;  // retained
  uint64_t value;
};
struct CallCommand {
  void (*call)(void*);
  void* argument;
};

struct ErrandCommand {
  Errand* errand;
};

struct ReplayCommand {
  const Tape* tape;  // retained
};

struct alignas(64) Command {
  enum class Kind : uint32_t { Launch, Copy, Fill, Box, Wait, Call, Errand, Stamp, Replay };
  Kind kind;
  uint32_t reserved;
  uint64_t arena_end;  // the arena is free up to here once this command is done
  union {
    LaunchCommand launch;
    CopyCommand copy;
    FillCommand fill;
    BoxCommand box;
    WaitCommand wait;
    CallCommand call;
    ErrandCommand errand;
    ReplayCommand replay;
  };
};
static_assert(sizeof(Command) == 128 && std::is_trivially_copyable_v<Command>);

}  // namespace tenon::cpu
