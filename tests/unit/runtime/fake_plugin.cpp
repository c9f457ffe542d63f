// SPDX-License-Identifier: Apache-2.0
// fake_plugin.cpp: the test's hand on a fake: what it opens, holds, breaks and counts.
#include "fake_world.hpp"

#include "runtime/device_state.hpp"

#include <doctest/doctest.h>

namespace tenon::test {
namespace {

using fake::Lock;
using fake::mutex;
using fake::run_all;

tn_stream& native(const Stream& stream) { return *stream.state()->handle; }

}  // namespace

FakePlugin::FakePlugin(FakeOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  State& state = *state_;
  state.device_api = fake::device_table();
  state.stream_api = fake::stream_table(state.options);
  state.kernel_api = fake::kernel_table();
  state.raw = {.header = {sizeof(tn_plugin), 1, 0},
               .name = state.options.name.c_str(),
               .vendor = "test",
               .version = "1.0.0",
               .features = state.options.features,
               .context = state_.get(),
               .device = &state.device_api,
               .stream = &state.stream_api,
               .kernel = &state.kernel_api};
  auto tables = plugin::complete(state_->raw);
  REQUIRE_MESSAGE(tables.ok(), tables.message());
  state_->tables = std::move(*tables);
}

FakePlugin::~FakePlugin() {
  CHECK_MESSAGE(state_->live == 0, "the fake plugin's handles live on: " << state_->live);
}

Device FakePlugin::open(uint32_t ordinal, double reserve_fraction) {
  auto device = runtime::open_device({.plugin = descriptor(),
                                      .ordinal = ordinal,
                                      .name = state_->options.name + ":" + std::to_string(ordinal),
                                      .emulated = state_->tables->emulated,
                                      .reserve_fraction = reserve_fraction,
                                      .log = [state = state_.get()](LogLevel, const std::string& text) {
                                        const Lock lock(mutex);
                                        state->log += text + "\n";
                                      }});
  REQUIRE_MESSAGE(device.ok(), device.message());
  return Device(std::move(*device));
}

const tn_plugin* FakePlugin::descriptor() const { return &state_->tables->descriptor; }
FakeCalls& FakePlugin::calls() { return state_->calls; }

void FakePlugin::hold(const Stream& stream) {
  const Lock lock(mutex);
  native(stream).allowed = native(stream).completed;
}

void FakePlugin::release(const Stream& stream) {
  const Lock lock(mutex);
  native(stream).allowed = UINT64_MAX;
  run_all();
}

void FakePlugin::step(const Stream& stream, uint64_t count) {
  const Lock lock(mutex);
  native(stream).allowed += count;
  run_all();
}

void FakePlugin::fail_next(const Stream& stream, int32_t code, const std::string& message) {
  const Lock lock(mutex);
  native(stream).fail_next = true;
  native(stream).failure = code;
  native(stream).failure_text = message;
}

void FakePlugin::refuse_memory(int32_t code) {
  const Lock lock(mutex);
  state_->refusal = code;
}

uint64_t FakePlugin::used_bytes() const {
  const Lock lock(mutex);
  return state_->used;
}

void FakePlugin::refuse_fragments(const std::string& reason) {
  const Lock lock(mutex);
  state_->no_fragments = reason;
}

void FakePlugin::while_compiling(std::function<void()> body) {
  const Lock lock(mutex);
  state_->compiling = std::move(body);
}

uint64_t FakePlugin::live() const {
  const Lock lock(mutex);
  return state_->live;
}

uint64_t FakePlugin::used_after_free() const {
  const Lock lock(mutex);
  return state_->after_free;
}

std::string FakePlugin::logged() const {
  const Lock lock(mutex);
  return state_->log;
}

}  // namespace tenon::test
