// SPDX-License-Identifier: Apache-2.0
// fake_world.hpp: the state behind all fake plugins and how their streams move; only the fake's own files include it.
//
// Invariant: everything here is under the one mutex. A stream's value is the number of its commands, as any plugin may
// choose; `run_all` moves every stream of every fake as far as it can go.
#pragma once

#include "fake_plugin.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace tenon::test {
using State = FakePlugin::State;
}

struct tn_device {
  tenon::test::State* plugin;
  uint32_t ordinal;
};

struct tn_memory {
  tenon::test::State* plugin;
  uint32_t kind;
  std::vector<unsigned char> storage;
  unsigned char* data;
};

struct tn_kernel {
  tenon::test::State* plugin;
  uint64_t workspace_bytes;
};

struct tn_stream {
  tenon::test::State* plugin;
  tn_device* device;
  struct Command {
    std::function<void()> work;
    tn_stream* other = nullptr;  // a wait
    uint64_t value = 0;
    bool promise = false;
    bool fails = false;
  };
  std::deque<Command> commands;  // not yet run
  uint64_t enqueued = 0, completed = 0, allowed = UINT64_MAX;
  uint64_t told = 0;  // by a sync
  std::set<uint64_t> signalled;
  bool fail_next = false;
  int32_t failure = TN_OK;
  uint64_t failed_at = UINT64_MAX;
  std::string failure_text;
};

namespace tenon::test {

struct FakePlugin::State {
  FakeOptions options;
  FakeCalls calls;
  tn_device_api device_api{};
  tn_stream_api stream_api{};
  tn_kernel_api kernel_api{};
  tn_plugin raw{};
  std::unique_ptr<plugin::Tables> tables;
  uint64_t used = 0, live = 0, after_free = 0;
  int32_t refusal = TN_OK;
  std::string no_fragments;
  std::function<void()> compiling;
  std::string log;
};

namespace fake {

inline std::recursive_mutex mutex;
inline std::condition_variable_any moved;
inline std::set<tn_stream*> streams;
inline std::set<tn_memory*> memories;
using Lock = std::unique_lock<std::recursive_mutex>;

inline State& state_of(const tn_plugin* plugin) { return *static_cast<State*>(plugin->context); }

inline int32_t fail(tn_error* error, int32_t code, const std::string& text, uint32_t flags = 0) {
  return write_error(
      Error{.code = code, .message = text, .domain = "fake", .native_code = 77, .flags = flags}, error);
}

inline void execute(tn_stream& stream, tn_stream::Command& command) {
  if (command.work) command.work();
  const bool broken =
      command.promise ? stream.failure != TN_OK && stream.failed_at == UINT64_MAX : command.fails;
  ++stream.completed;
  if (broken) stream.failed_at = stream.completed;
}

inline bool blocked(const tn_stream& stream, const tn_stream::Command& command) {
  if (command.promise) return stream.signalled.count(stream.completed + 1) == 0;
  return command.other != nullptr && streams.count(command.other) != 0 &&
         command.other->completed < command.value;
}

inline bool run_one(tn_stream& stream) {
  if (stream.commands.empty() || stream.completed >= stream.allowed ||
      blocked(stream, stream.commands.front()))
    return false;
  tn_stream::Command command = std::move(stream.commands.front());
  stream.commands.pop_front();
  execute(stream, command);
  return true;
}

inline void run_all() {
  for (bool progress = true; progress;) {
    progress = false;
    for (tn_stream* stream : streams) progress = run_one(*stream) || progress;
  }
  moved.notify_all();
}

inline int32_t told(const tn_stream& stream, tn_error* error) {
  return fail(error, stream.failure, stream.failure_text, TN_ERROR_ASYNC);
}

inline int32_t enqueue(tn_stream* stream, tn_stream::Command command, tn_error* error) {
  if (stream->failed_at != UINT64_MAX) return told(*stream, error);
  command.fails = std::exchange(stream->fail_next, false);
  ++stream->enqueued;
  stream->commands.push_back(std::move(command));
  run_all();
  return TN_OK;
}

inline unsigned char* place(State& plugin, const tn_span& span) {
  if (span.space != TN_SPACE_MEMORY)
    return reinterpret_cast<unsigned char*>(static_cast<uintptr_t>(span.offset));
  if (memories.count(span.memory) == 0) {
    ++plugin.after_free;
    return nullptr;
  }
  return span.memory->data + span.offset;
}

// The tables of the C interface.
tn_device_api device_table();
tn_stream_api stream_table(const FakeOptions& options);
tn_kernel_api kernel_table();

}  // namespace fake

}  // namespace tenon::test
