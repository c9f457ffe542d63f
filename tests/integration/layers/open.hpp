// SPDX-License-Identifier: Apache-2.0
// open.hpp: a runtime with the CPU plugin of the build tree behind the layers of a test.
// Invariant: nothing of the environment's own layers or plugins takes part.
#pragma once

#include <tenon/tenon.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace tenon::test {

// The value of a Result; the test case ends when there is none.
template <class T>
T must(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.message());
  return std::move(result).take();
}
inline void must(Status status) { REQUIRE_MESSAGE(status.ok(), status.message()); }

inline Runtime open(
    std::vector<std::string> layers, LogSink log = [](LogLevel, std::string_view, std::string_view) {}) {
  const char* folder = std::getenv("TENON_TEST_PLUGIN_DIR");
  RuntimeOptions options;
  options.search_path = {folder == nullptr ? "" : folder};
  options.use_environment = false;
  options.use_install_path = false;
  options.probe = Probe::off;
  options.layers = std::move(layers);
  options.options = {{"cpu.threads", "2"}};
  options.log = std::move(log);
  return must(Runtime::open(std::move(options)));
}

// d = a + b + c over n floats.
inline Fragment add3(int64_t n) {
  const TensorSpec spec{f32, {n}};
  FragmentBuilder f("add3");
  const auto a = f.input(spec), b = f.input(spec), c = f.input(spec);
  f.output(f.node(Op::add, {f.node(Op::add, {a, b}, spec), c}, spec));
  return must(f.build());
}

inline std::string all_reports(const Runtime& runtime) {
  std::string text;
  for (const std::string& line : runtime.layer_reports()) text += line + "\n";
  return text;
}

}  // namespace tenon::test

// The text holds the part; both are shown when not.
#define CHECK_HAS(text, part) \
  CHECK_MESSAGE((text).find(part) != std::string::npos, "'" << (part) << "' is not in:\n" << (text))
