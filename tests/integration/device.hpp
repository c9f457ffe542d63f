// SPDX-License-Identifier: Apache-2.0
// device.hpp: a runtime with the plugin under test behind it, and what the cases of every device share.
//
// The same cases run on the CPU plugin, on the simulated device under each of its profiles, and on the CUDA plugin over the
// driver made for tests (support/device.hpp). A case leaves, visibly, only where the device says that it lacks what the case is about.
// Invariant: nothing of the environment's own layers or plugins takes part, and of the built ones only that under test, and
// another where a case asks for it.
#pragma once

#include "support/device.hpp"
#include "support/runtime_options.hpp"
#include "support/skip.hpp"

#include <tenon/tenon.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <map>
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

inline Runtime open(std::vector<std::string> layers = {}, LogSink log = say_nothing,
                    std::map<std::string, std::string> options = {},
                    std::vector<std::string> plugins = {device_under_test().plugin}) {
  const DeviceUnderTest& device = device_under_test();
  if (device.plugin == "cpu") options.emplace("cpu.threads", "2");
  // Over the driver made for tests, whose libraries compute nothing.
  if (device.plugin == "cuda") options.insert({{"cuda.cublaslt", "off"}, {"cuda.cudnn", "off"}});
  if (!device.profile.empty()) options.emplace(device.plugin + ".profile", device.profile);
  RuntimeOptions asked = built_plugins(std::move(options));
  for (const std::string& name : plugins) {
    const std::string file = asked.search_path.front() + "/tenon-" + name + ".so";
    if (access(file.c_str(), R_OK) == 0) asked.plugins.push_back(file);
  }
  asked.search_path.clear();
  asked.layers = std::move(layers);
  asked.log = std::move(log);
  return must(Runtime::open(std::move(asked)));
}

// Another plugin than the one under test, where this build has one.
inline std::string other_plugin() { return device_under_test().plugin == "cpu" ? "sim" : "cpu"; }
inline Runtime open_with_other(std::vector<std::string> layers = {}) {
  return open(std::move(layers), say_nothing, {}, {device_under_test().plugin, other_plugin()});
}

// The first device of the plugin under test.
inline Device target(Runtime& runtime) { return must(runtime.device(device_under_test().plugin)); }

// d = a + b + c over n elements.
inline Fragment add3(int64_t n, DType dtype = f32) {
  const TensorSpec spec{dtype, {n}};
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

// Leaves the case where a call says that the device lacks it: the topic is named, so that TENON_REQUIRE can insist.
#define SKIP_IF_UNSUPPORTED(status, topic)                       \
  if ((status).code() == TN_UNSUPPORTED)                         \
  TENON_SKIP(topic, ::tenon::test::device_under_test().label() + \
                        " has none of it: " + std::string((status).message()))
