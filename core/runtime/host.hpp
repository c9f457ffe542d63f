// SPDX-License-Identifier: Apache-2.0
// host.hpp: the services this host lends to plugins.
//
// Invariant: a plugin may keep the table for the life of the process, so a Host is never destroyed; only what the user gave
// to be called is let go when its Runtime ends.
#pragma once

#include "base/environment.hpp"
#include "base/log.hpp"
#include "runtime/lent.hpp"

#include <tenon/host.h>
#include <tenon/runtime.hpp>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tenon::runtime {

class Host {
 public:
  // Made for one Runtime, and kept for ever.
  static Host& make(const RuntimeOptions& options);

  const tn_host& table() const noexcept { return table_; }
  base::Logger& log() noexcept { return log_; }
  // What the user gave is not called any more: later lines go to standard error, later events nowhere, and later work is
  // done by the thread that has it. Waits for calls underway. [any-thread; may block; cannot fail]
  void let_go() noexcept;
  // The value of option "GROUP.KEY", or of the environment's TENON_GROUP_KEY. [any-thread; does not block; cannot fail]
  std::optional<std::string> option(std::string_view group, std::string_view key) const;
  // Of this runtime's options those of plugin `group` that it has asked for under no such name, but under one much like it: a
  // sentence each, once. [any-thread; does not block; cannot fail]
  std::vector<std::string> misspelt(std::string_view group);
  const base::Environment& environment() const noexcept { return environment_; }

  // While one lives, options that a plugin asks for on this thread are those of `host`, whoever's table the plugin keeps: so a
  // device is opened with the options of the runtime that opens it.
  class Opening {
   public:
    explicit Opening(Host* host) noexcept;
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;
    ~Opening();

   private:
    Host* before_;
  };

  // As plugins see them.
  static void write(void* context, int32_t level, const char* component, const char* text) noexcept;
  static int32_t level(void* context) noexcept;
  static void* allocate(void* context, uint64_t bytes, uint64_t alignment) noexcept;
  static void release(void* context, void* memory, uint64_t bytes, uint64_t alignment) noexcept;
  static const char* look_up(void* context, const char* plugin, const char* key) noexcept;
  static void trace(void* context, int32_t kind, const char* name, uint64_t id, double value) noexcept;
  static void parallel_for(void* context, uint64_t count, uint64_t grain,
                           void (*body)(void* argument, uint64_t begin, uint64_t end),
                           void* argument) noexcept;

 private:
  explicit Host(const RuntimeOptions& options);
  void pass_on(LogLevel level, std::string_view component, std::string_view text);

  tn_host table_{};
  std::recursive_mutex sink_mutex_;
  LogSink sink_;
  base::Logger log_;
  Lent<TraceSink> trace_;
  Lent<ParallelFor> parallel_for_;
  std::map<std::string, std::string, std::less<>> options_;
  base::Environment environment_;
  std::mutex lent_mutex_;
  std::map<std::string, std::string, std::less<>> lent_;  // values whose text a plugin may keep
  std::set<std::string, std::less<>> remarked_;           // misspelt options that were told
};

}  // namespace tenon::runtime
