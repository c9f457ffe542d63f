// SPDX-License-Identifier: Apache-2.0
// log.hpp: the one way a line leaves the host: through the LogSink of its options, or to standard error.
//
// Invariant: a line is passed on whole, and one at a time per Logger; a sink that throws loses its line and nothing else.
#pragma once

#include <tenon/runtime.hpp>

#include <atomic>
#include <mutex>
#include <string_view>

namespace tenon::base {

const char* name(LogLevel level) noexcept;

// The default sink: "tenon warn plugin: text" on standard error, in one write. [any-thread; may block; cannot fail]
void log_to_stderr(LogLevel level, std::string_view component, std::string_view text) noexcept;

class Logger {
 public:
  // A null `sink` means standard error.
  explicit Logger(LogSink sink = {}, LogLevel level = LogLevel::warn)
      : sink_(std::move(sink)), level_(static_cast<int32_t>(level)) {}

  // Ask before building a costly line. [any-thread; does not block; cannot fail]
  bool wants(LogLevel level) const noexcept {
    return static_cast<int32_t>(level) <= level_.load(std::memory_order_relaxed);
  }
  LogLevel level() const noexcept { return static_cast<LogLevel>(level_.load(std::memory_order_relaxed)); }
  void set_level(LogLevel level) noexcept {
    level_.store(static_cast<int32_t>(level), std::memory_order_relaxed);
  }
  // [any-thread; may block; cannot fail]
  void write(LogLevel level, std::string_view component, std::string_view text) noexcept;

 private:
  std::recursive_mutex mutex_;  // a sink may itself come to log
  LogSink sink_;
  std::atomic<int32_t> level_;
};

}  // namespace tenon::base
