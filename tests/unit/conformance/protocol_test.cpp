// SPDX-License-Identifier: Apache-2.0
// What a worker says survives the way to the runner.
#include "conformance/protocol.hpp"

#include <doctest/doctest.h>

using namespace tenon::conform;

TEST_CASE("protocol: a request comes back as it was") {
  Request request;
  request.settings = {
      .plugin = "a b.so",
      .device = 3,
      .quick = true,
      .seed = UINT64_MAX,
      .patience_ns = 5,
      .options = {{"k", "v"}},
      .judging = {.slack = {{"exp.f16", {.factor = 4, .ulps = 0.5}}}, .determinism = Determinism::bitwise}};
  request.round = 7;
  request.seat = {.meeting = 2, .rank = 1, .size = 3, .folder = "/a b"};
  request.cases = {"copy: a", "copy: b"};
  const auto back = decode_request(encode(request));
  REQUIRE(back.ok());
  CHECK(back->settings.plugin == "a b.so");
  CHECK(back->settings.seed == UINT64_MAX);
  CHECK(back->settings.options == request.settings.options);
  CHECK(back->settings.judging == request.settings.judging);
  CHECK(back->round == 7);
  CHECK(back->seat.meeting == 2);
  CHECK(back->seat.rank == 1);
  CHECK(back->seat.size == 3);
  CHECK(back->seat.folder == "/a b");
  CHECK(back->cases == request.cases);
}

TEST_CASE("protocol: stories of any length and any bytes fit into a message") {
  Message message{.kind = Message::Kind::end, .sender = 42, .name = "copy: a"};
  message.finding.outcome = Outcome::failed;
  for (int i = 0; i < 12; ++i) message.finding.failures.push_back(std::string(100'000, '\xff'));
  const std::string text = encode(message);
  CHECK(text.size() < max_message);
  const auto back = decode_message(text);
  REQUIRE(back.ok());
  CHECK(back->sender == 42);
  CHECK(back->finding.failures.size() == 12);
}

TEST_CASE("protocol: a description comes back as it was") {
  Message message{.kind = Message::Kind::description, .sender = 1};
  message.description.name = "foo";
  message.description.features = 1ull << 40;
  message.description.devices.push_back({.ordinal = 1, .name = "chip", .opened = true});
  message.description.devices[0].limits.max_streams = 7;
  message.description.functions.push_back({"stream", "promise", false, false, "the core blocks"});
  const auto back = decode_message(encode(message));
  REQUIRE(back.ok());
  CHECK(back->description.features == 1ull << 40);
  REQUIRE(back->description.devices.size() == 1);
  CHECK(back->description.devices[0].limits.max_streams == 7);
  CHECK(back->description.functions[0].otherwise == "the core blocks");
}

TEST_CASE("protocol: what is no message is refused") {
  for (const char* text : {"", "{", "null", "[]", "{\"kind\": \"x\"}", "{\"kind\": 1}"}) {
    CHECK_FALSE(decode_message(text).ok());
    CHECK_FALSE(decode_request(text).ok());
  }
}

TEST_CASE("protocol: unknown feature bits have a name") {
  CHECK(feature_names(TN_FEATURE_ADDRESSABLE | 1ull << 40) ==
        std::vector<std::string>{"ADDRESSABLE", "bit 40"});
}
