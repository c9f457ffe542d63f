// SPDX-License-Identifier: Apache-2.0
// replay_test.cpp: a replay tells where another plugin differs, and refuses what is damaged, cut off or unsound.
#include "recordings.hpp"

#include "support/seed.hpp"

#include <random>

using namespace tenon;
using namespace tenon::test;
namespace recording = tenon::layers::recording;

TEST_CASE("replay: another outcome is told with step, bytes and both digests") {
  const ScratchFile file("run.rec");
  const std::string text = recorded(file);
  file.write(forged(text, [](auto& step) {
    if constexpr (std::is_same_v<std::decay_t<decltype(step)>, recording::Fill>) step.pattern += 1 << 20;
  }));
  const ReplayReport report = replayed(file);
  CHECK(report.differences == 1);
  REQUIRE(report.first.has_value());
  CHECK_HAS(report.first->what, "copy: 1024 downloaded bytes differ: recorded ");
  CHECK(report.first->step == 12);
}

TEST_CASE("replay: another code is told with both") {
  const ScratchFile file("codes.rec");
  {
    Layered on("record=" + file.path());
    tn_device* device = on.call->open();
    tn_stream* stream = on.call->stream(device);
    tn_device* none = nullptr;
    CHECK(on.top().device->open(&on.top(), 7, nullptr, &none, nullptr) == TN_NOT_FOUND);
    CHECK(on.top().stream->sync(stream, 1, 0, nullptr) == TN_TIMEOUT);
    on.call->destroy(stream);
    on.call->close(device);
  }
  const std::string text = file.read();
  file.write(forged(text, [](auto& step) {
    if constexpr (std::is_same_v<std::decay_t<decltype(step)>, recording::Create>) step.code = TN_NO_MEMORY;
  }));
  const MiniPlugin plugin;
  const auto report = replay(file.path(), plugin.descriptor());
  REQUIRE(report.ok());
  REQUIRE(report->first.has_value());
  CHECK(report->first->what == "stream.create: recorded TN_NO_MEMORY, now TN_OK");
  CHECK(plugin.live() == 0);
}

TEST_CASE("replay: damage anywhere is refused, with the step") {
  const ScratchFile file("run.rec");
  const std::string text = recorded(file);
  const MiniPlugin plugin;
  for (size_t at = 0; at < text.size(); at += 1 + at / 64) {
    CAPTURE(at);
    if (at >= 12 && at < 16) continue;  // reserved
    std::string broken = text;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    file.write(broken);
    const auto report = replay(file.path(), plugin.descriptor());
    REQUIRE_FALSE(report.ok());
    if (at >= 24) CHECK_HAS(report.error().message, "step ");
  }
  CHECK(plugin.live() == 0);
  CHECK(plugin.enqueued() == 0);
}

TEST_CASE(
    "replay: a recording that is cut off is refused, or replayed as far as it goes when that is accepted") {
  const ScratchFile file("run.rec");
  const std::string text = recorded(file);
  const MiniPlugin plugin;
  for (size_t size = 0; size < text.size(); size += 7) {
    CAPTURE(size);
    file.write(text.substr(0, size));
    const auto strict = replay(file.path(), plugin.descriptor());
    REQUIRE_FALSE(strict.ok());
    CHECK_HAS(strict.error().message,
              size < 16 ? "this is no recording" : "is cut off: the recording has no end");
    const auto lenient = replay(file.path(), plugin.descriptor(), {.accept_truncated = true});
    CHECK(lenient.ok() == (size >= 16));
    if (lenient.ok()) CHECK(lenient->same());
    CHECK(plugin.live() == 0);
  }
}

TEST_CASE("replay: foreign files, later versions and missing files are refused with the reason") {
  const ScratchFile file("run.rec");
  const MiniPlugin plugin;
  const auto refusal = [&](const std::string& text) {
    file.write(text);
    return replay(file.path(), plugin.descriptor()).error();
  };
  CHECK_HAS(refusal("{\"traceEvents\":[]}").message, "this is no recording: it does not begin with TENONREC");
  std::string later = recording::file_head();
  later[8] = 9;
  CHECK_HAS(refusal(later).message, "the recording has version 9, this library reads version 1");
  CHECK(refusal(later).code == TN_VERSION);
  CHECK(replay("/no/such/file", plugin.descriptor()).code() == TN_NOT_FOUND);
}

TEST_CASE(
    "replay: spans that leave their memory, unknown handles and unsound fragments are skipped, not called") {
  const ScratchFile file("run.rec");
  const std::string text = recorded(file);
  std::mt19937_64 random = generator(5);
  const MiniPlugin plugin;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto evil = [&]() -> uint64_t { return random() % 3 == 0 ? random() : random() % 5000; };
    const uint64_t victim = random() % 20;
    uint64_t at = 0;
    file.write(forged(text, [&](auto& step) {
      using S = std::decay_t<decltype(step)>;
      if (at++ != victim) return;
      if constexpr (std::is_same_v<S, recording::Copy>) step.dst.offset = evil(), step.src.bytes = evil();
      if constexpr (std::is_same_v<S, recording::Fill>)
        step.dst.offset = evil(), step.dst.memory = evil() % 8;
      if constexpr (std::is_same_v<S, recording::Launch>)
        step.bindings[random() % step.bindings.size()].offset = evil();
      if constexpr (std::is_same_v<S, recording::Alloc>) step.bytes = evil() % 2000;
      if constexpr (std::is_same_v<S, recording::Wait>) step.other = evil() % 8;
      if constexpr (std::is_same_v<S, recording::Compile>) step.fragment.nodes[0].inputs[0] = 77;
    }));
    const auto report = replay(file.path(), plugin.descriptor());
    CHECK(report.ok());
    CHECK(plugin.live() == 0);
  }
}
