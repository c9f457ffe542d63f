// SPDX-License-Identifier: Apache-2.0
// host_test.cpp: plugins of other times, loaded by the core as a user's program would.
// Invariant: the frozen plugin loads and computes under every later host.
#include <tenon/tenon.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace {

// A runtime that sees one plugin of the test folder and nothing else.
tenon::Result<tenon::Runtime> runtime_with(const std::string& name) {
  const char* folder = std::getenv("TENON_ABI_PLUGINS");
  REQUIRE_MESSAGE(folder != nullptr, "TENON_ABI_PLUGINS names the folder of the test plugins");
  return tenon::Runtime::open({.plugins = {std::string(folder) + "/tenon-" + name + ".so"},
                               .use_environment = false,
                               .use_install_path = false});
}

tenon::Result<tenon::Fragment> identity_of_16() {
  tenon::FragmentBuilder f("identity");
  f.output(f.node(tenon::Op::identity, {f.input({tenon::f32, {16}})}, {tenon::f32, {16}}));
  return f.build();
}

// Copies in, runs identity, copies out.
tenon::Status computes(tenon::Runtime& runtime, const std::string& name) {
  auto device = TN_TRY(runtime.device(name));
  auto stream = TN_TRY(device.stream());
  auto fragment = TN_TRY(identity_of_16());
  auto kernel = TN_TRY(device.compile(fragment));
  auto x = TN_TRY(device.allocate(stream, 64));
  auto y = TN_TRY(device.allocate(stream, 64));
  std::array<float, 16> in{}, out{};
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) + 0.5f;
  TN_TRY(stream.upload(x.span(), std::span<const float>(in)));
  TN_TRY(kernel.run(stream, {x.span(), y.span()}));
  TN_TRY(stream.download(std::span<float>(out), y.span()));
  TN_TRY(stream.sync());
  return in == out ? tenon::Status{} : tenon::Status(TN_INTERNAL, "identity changed its input");
}

void loads_and_computes(const std::string& name) {
  auto runtime = runtime_with(name);
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  REQUIRE(runtime->candidates().size() == 1);
  const tenon::Candidate& candidate = runtime->candidates()[0];
  REQUIRE_MESSAGE(candidate.state == tenon::Candidate::State::loaded, candidate.reason);
  CHECK(candidate.name == name);
  const tenon::Status done = computes(*runtime, name);
  CHECK_MESSAGE(done.ok(), done.message());
}

}  // namespace

TEST_CASE("host: the frozen plugin of ABI 1.0 loads and computes") { loads_and_computes("frozen_v1"); }

TEST_CASE("host: a newer plugin with longer tables loads and computes") { loads_and_computes("newer"); }

TEST_CASE("host: an older plugin with shorter tables loads and computes") { loads_and_computes("older"); }

TEST_CASE("host: what an answer has no room for is not honoured") {
  auto runtime = runtime_with("frozen_v1");
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  auto device = runtime->device("frozen_v1");
  REQUIRE_MESSAGE(device.ok(), device.message());
  const auto fragment = identity_of_16();
  REQUIRE(fragment.ok());
  const auto support = device->supports(*fragment);
  REQUIRE_MESSAGE(support.ok(), support.message());
  CHECK(support->verdict == tenon::Verdict::native);
  CHECK(support->aliases_beyond == 0);
  CHECK(!support->honours(64));
}

TEST_CASE("host: what an older plugin lacks is emulated and said to be") {
  auto runtime = runtime_with("older");
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  CHECK(!runtime->candidates()[0].emulated.empty());
  auto device = runtime->device("older");
  REQUIRE_MESSAGE(device.ok(), device.message());
  auto stream = device->stream();
  REQUIRE(stream.ok());
  int ran = 0;
  CHECK(stream->host_call([&ran] { ++ran; }).ok());  // beyond its table: the core does it
  CHECK(stream->sync().ok());
  CHECK(ran == 1);
  auto timed = stream->record(tenon::Timed::yes);
  REQUIRE(timed.ok());
  CHECK(timed->timestamp().code() == TN_UNSUPPORTED);
}
