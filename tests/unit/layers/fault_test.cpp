// SPDX-License-Identifier: Apache-2.0
// fault_test.cpp: every code can be injected where and when a rule says, and a rule that is wrong is explained.
#include "layered.hpp"

#include <chrono>

using namespace tenon;
using namespace tenon::test;

namespace {

int32_t alloc(const Layered& on, tn_device* device, std::string* said = nullptr) {
  tn_memory* memory = nullptr;
  tn_error error = no_error();
  const int32_t code = on.top().device->alloc(device, 0, 64, 0, &memory, &error);
  if (code == TN_OK) on.call->free(memory);
  if (said != nullptr) *said = error.message;
  return code;
}

}  // namespace

TEST_CASE("fault: each code is injected on the n-th call, and on no other") {
  const char* names[] = {"invalid", "unsupported", "no_memory", "not_found", "timeout", "busy",
                         "aborted", "device_lost", "peer_lost", "mismatch",  "version", "internal"};
  for (int32_t code = 1; code < TN_CODE_COUNT; ++code) {
    const std::string rule = "alloc:3:" + std::string(names[code - 1]);
    CAPTURE(rule);
    Layered on("fault=" + rule);
    tn_device* device = on.call->open();
    CHECK(alloc(on, device) == TN_OK);
    CHECK(alloc(on, device) == TN_OK);
    std::string said;
    CHECK(alloc(on, device, &said) == code);
    CHECK_HAS(said, "injected by fault rule '" + rule + "'");
    CHECK(alloc(on, device) == (code == TN_DEVICE_LOST ? TN_DEVICE_LOST : TN_OK));
    CHECK_HAS(on.found(), "fired 1 times in ");
    on.call->close(device);
  }
}

TEST_CASE(
    "fault: a star is each call, several rules stand together, and an injected failure does not reach the "
    "plugin") {
  Layered on("fault=fill:*:busy;copy:2:aborted;launch:9:internal");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device);
  tn_memory* memory = on.call->alloc(device, 64);
  const tn_span low = span_of(memory, 0, 8), high = span_of(memory, 8, 8);
  tn_error error = no_error();
  const int before = on.plugin.enqueued();
  for (int i = 0; i < 3; ++i) CHECK(on.top().stream->fill(stream, &low, 0, 1, &error) == TN_BUSY);
  CHECK(on.plugin.enqueued() == before);
  CHECK(on.top().stream->copy(stream, &low, &high, &error) == TN_OK);
  CHECK(on.top().stream->copy(stream, &low, &high, &error) == TN_ABORTED);
  CHECK(on.top().stream->copy(stream, &low, &high, nullptr) == TN_OK);
  CHECK_HAS(on.found(), "fault rule 'launch:9:internal' never fired in 0 calls of launch");
  on.call->free(memory);
  on.call->destroy(stream);
  on.call->close(device);
}

TEST_CASE("fault: a lost device stays lost, another stays well, and only destroy and free succeed on it") {
  Layered on("fault=record:2:device_lost");
  tn_device* device = on.call->open(0);
  tn_device* well = on.call->open(1);
  tn_stream* stream = on.call->stream(device);
  tn_stream* other = on.call->stream(well);
  tn_memory* memory = on.call->alloc(device, 64);
  tn_kernel* kernel = on.call->add(device, 4);
  on.call->record(stream);
  uint64_t value = 0;
  tn_error error = no_error();
  CHECK(on.top().stream->record(stream, 0, &value, &error) == TN_DEVICE_LOST);
  CHECK(on.top().stream->query(stream, &value, &error) == TN_DEVICE_LOST);
  CHECK(alloc(on, device) == TN_DEVICE_LOST);
  CHECK(alloc(on, well) == TN_OK);
  on.call->record(other);
  on.call->destroy(kernel);
  on.call->free(memory);
  on.call->destroy(stream);
  on.call->destroy(other);
  on.call->close(device);
  on.call->close(well);
  CHECK(on.plugin.live() == 0);
}

TEST_CASE("fault: a failure of destroy or free comes after the call, so nothing leaks") {
  Layered on("fault=free:1:internal;stream.destroy:1:aborted");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device);
  tn_memory* memory = on.call->alloc(device, 64);
  tn_error error = no_error();
  CHECK(on.top().device->free(memory, &error) == TN_INTERNAL);
  CHECK(on.top().stream->destroy(stream, TN_DESTROY_COMPLETE, &error) == TN_ABORTED);
  on.call->close(device);
  CHECK(on.plugin.live() == 0);
}

TEST_CASE("fault: a delay holds the call up and lets it pass") {
  Layered on("fault=sync:2:delay=30;sync:3:timeout:30");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device);
  const auto timed = [&](int32_t expected) {
    const auto start = std::chrono::steady_clock::now();
    tn_error error = no_error();
    CHECK(on.top().stream->sync(stream, 0, TN_TIMEOUT_NEVER, &error) == expected);
    return std::chrono::steady_clock::now() - start;
  };
  timed(TN_OK);
  CHECK(timed(TN_OK) >= std::chrono::milliseconds(30));
  CHECK(timed(TN_TIMEOUT) >= std::chrono::milliseconds(30));
  on.call->destroy(stream);
  on.call->close(device);
}

TEST_CASE("fault: a wrong rule is refused with the part that is wrong and the nearest name") {
  const auto refusal = [](const char* rules) {
    auto made = layers::make_layer(std::string("fault=") + rules);
    REQUIRE_FALSE(made.ok());
    CHECK(made.code() == TN_INVALID);
    return made.error().message;
  };
  CHECK_HAS(refusal("aloc:1:busy"), "no function of the ABI is called 'aloc' (did you mean 'alloc'?)");
  CHECK_HAS(refusal("alloc:1:no_memry"), "no code is called 'no_memry' (did you mean 'no_memory'?)");
  CHECK_HAS(refusal("alloc:0:busy"), "'0' is no call number: count from 1");
  CHECK_HAS(refusal("alloc:x:busy"), "'x' is no call number");
  CHECK_HAS(refusal("alloc:1"), "write FUNCTION:N:CODE[:DELAY_MS]");
  CHECK_HAS(refusal("alloc:1:busy:soon"), "'soon' is no number of milliseconds");
  CHECK_HAS(refusal("alloc:1:delay=soon"), "'soon' is no number of milliseconds");
  CHECK_HAS(refusal("create:1:busy"), "is in several tables: say stream.create or comm.create");
  CHECK_HAS(refusal(""), "no rule given");
  CHECK(layers::make_layer("fault=stream.create:1:busy;quiesce:*:delay=1").ok());
}
