// SPDX-License-Identifier: Apache-2.0
// gate.cpp: a gate made of a promise, or of a host call that blocks.
#include "conformance/gate.hpp"

#include <chrono>

namespace tenon::conform {

namespace {

constexpr auto longest_hold = std::chrono::seconds(5);
constexpr auto moment = std::chrono::milliseconds(150);

}  // namespace

Result<Gate> Gate::make(Context& t, const Device& device, Means means) {
  const tn_stream_api& api = device.api().stream;
  if (device.has(TN_FEATURE_SYNCHRONOUS)) {
    return t.unsupported("stream.asynchronous",
                         "the plugin declares SYNCHRONOUS: no stream can be held back");
  }
  Gate gate(t);
  if (means != Means::host_call && api.promise != nullptr && api.signal != nullptr) {
    gate.promises_ = TN_TRY(device.stream(0, "gate"));
    gate.promised_ = TN_TRY(gate.promises_.promise());
    return gate;
  }
  if (means != Means::promise && api.host_call != nullptr) {
    gate.state_ = std::make_shared<State>();
    return gate;
  }
  if (means == Means::promise) return t.unsupported("stream.promise", "the plugin has no promise and signal");
  if (means == Means::host_call) return t.unsupported("stream.host_call", "the plugin has no host_call");
  return t.unsupported("stream.asynchronous",
                       "the plugin has neither promise nor host_call to hold a stream back");
}

void Gate::block(void* state) {
  const std::unique_ptr<std::shared_ptr<State>> own(static_cast<std::shared_ptr<State>*>(state));
  State& gate = **own;
  std::unique_lock lock(gate.mutex);
  gate.changed.wait_for(lock, longest_hold, [&] { return gate.open; });
  ++gate.passed;
}

Status Gate::hold(const Stream& stream) {
  if (!state_) return stream.wait(promises_, promised_);
  auto own = std::make_unique<std::shared_ptr<State>>(state_);
  TN_TRY(stream.host_call(&Gate::block, own.get()));
  static_cast<void>(own.release());  // block() owns it now
  const std::lock_guard lock(state_->mutex);
  if (state_->passed == 0) return {};
  return t_->unsupported("stream.asynchronous", "host_call ran its function before it returned");
}

void Gate::open() {
  if (opened_) return;
  if (state_) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->open = true;
    }
    state_->changed.notify_all();
    opened_ = true;
  } else if (promises_.handle() != nullptr) {
    const Status kept = promises_.signal(promised_);
    t_->check(kept.ok(), "keeping the gate's promise: ", kept.message());
    opened_ = true;
  }
}

Opener::Opener(Gate& gate)
    : thread_([this, &gate] {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, moment, [&] { return now_; });
        gate.open();
      }) {}

void Opener::open() {
  {
    const std::lock_guard lock(mutex_);
    now_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tenon::conform
