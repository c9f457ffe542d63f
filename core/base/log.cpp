// SPDX-License-Identifier: Apache-2.0
// log.cpp: see log.hpp.
#include "base/log.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <unistd.h>

namespace tenon::base {

const char* name(LogLevel level) noexcept {
  static constexpr std::array names = {"error", "warn", "info", "debug", "trace"};
  const auto index = static_cast<size_t>(std::clamp(static_cast<int32_t>(level), 0, 4));
  return names[index];
}

void log_to_stderr(LogLevel level, std::string_view component, std::string_view text) noexcept {
  try {
    std::string line = "tenon ";
    line.append(name(level)).append(" ").append(component).append(": ").append(text).append("\n");
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    // No memory for a line of text: the line is lost.
  }
}

void Logger::write(LogLevel level, std::string_view component, std::string_view text) noexcept {
  if (!wants(level)) return;
  try {
    const std::lock_guard lock(mutex_);
    if (sink_) return sink_(level, component, text);
  } catch (...) {
    return;
  }
  log_to_stderr(level, component, text);
}

}  // namespace tenon::base
