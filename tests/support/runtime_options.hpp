// SPDX-License-Identifier: Apache-2.0
// runtime_options.hpp: how tests open a runtime: the plugins of this build, and nothing of the environment.
// Invariant: it needs no doctest, so that ranks outside a test case can use it.
#pragma once

#include <tenon/runtime.hpp>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::test {

inline void say_nothing(LogLevel, std::string_view, std::string_view) {}

// `options` are the plugins': "cpu.threads" → "1". Nothing is logged.
inline RuntimeOptions built_plugins(std::map<std::string, std::string> options) {
  const char* folder = std::getenv("TENON_TEST_PLUGIN_DIR");
  RuntimeOptions out;
  out.search_path = {folder == nullptr ? "" : folder};
  out.use_environment = false;
  out.use_install_path = false;
  out.probe = Probe::off;
  out.options = std::move(options);
  out.log = say_nothing;
  return out;
}

// What runtimes log from level info on, a line each. It outlives them.
class HeardLog {
 public:
  // `options`, whose runtime is heard here.
  RuntimeOptions of(RuntimeOptions options) {
    options.log_level = LogLevel::info;
    options.log = [this](LogLevel, std::string_view, std::string_view line) {
      const std::lock_guard lock(mutex_);
      text_.append(line).append("\n");
    };
    return options;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  // How often these words are in it.
  size_t count(std::string_view words) const {
    const std::string all = text();
    size_t out = 0;
    for (size_t at = all.find(words); at != std::string::npos; at = all.find(words, at + 1)) ++out;
    return out;
  }

 private:
  mutable std::mutex mutex_{};
  std::string text_{};
};

}  // namespace tenon::test
