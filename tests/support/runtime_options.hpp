// SPDX-License-Identifier: Apache-2.0
// runtime_options.hpp: how tests open a runtime: the plugins of this build, and nothing of the environment.
// Invariant: it needs no doctest, so that ranks outside a test case can use it.
#pragma once

#include <tenon/runtime.hpp>

#include <cstdlib>
#include <map>
#include <string>
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

}  // namespace tenon::test
