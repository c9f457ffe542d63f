// SPDX-License-Identifier: Apache-2.0
// host_call.cpp: host calls, native or emulated; see host_call.hpp.
#include "runtime/host_call.hpp"

#include "runtime/device_state.hpp"

#include <exception>
#include <utility>

namespace tenon::runtime {
namespace {

// The oldest record if it has run, else a new one; linked as the newest.
HostCall& enlist(Timeline& line, std::function<void()> body) {
  HostCall* call = line.oldest_call;
  if (call != nullptr && call->done.load(std::memory_order_acquire))
    line.oldest_call = call->next;
  else
    call = new HostCall;
  call->call = std::move(body);
  call->line = &line;
  call->next = nullptr;
  call->done.store(false, std::memory_order_relaxed);
  (line.oldest_call != nullptr ? line.newest_call->next : line.oldest_call) = call;
  line.newest_call = call;
  return *call;
}

void invoke(HostCall& record) noexcept {
  const Timeline& line = *record.line;
  try {
    record.call();
  } catch (const std::exception& escaped) {
    line.device->log(LogLevel::error, "a host call on stream '" + line.name + "' threw: " + escaped.what());
  } catch (...) {
    line.device->log(LogLevel::error, "a host call on stream '" + line.name + "' threw something unknown");
  }
}

void retire(HostCall& record) noexcept {
  record.call = nullptr;
  record.done.store(true, std::memory_order_release);  // the last touch
}

thread_local const Timeline* waits_for_us = nullptr;

// What the plugin calls; the stream ends only after its calls did.
void run(void* argument) noexcept {
  auto& record = *static_cast<HostCall*>(argument);
  const Timeline* const outer = std::exchange(waits_for_us, record.line);
  invoke(record);
  waits_for_us = outer;
  retire(record);
}

}  // namespace

bool is_in_call_of(const Timeline& line) noexcept { return waits_for_us == &line; }

void drop_calls(Timeline& line) noexcept {
  while (line.oldest_call != nullptr) delete std::exchange(line.oldest_call, line.oldest_call->next);
}

}  // namespace tenon::runtime

namespace tenon {

Status Stream::host_call(std::function<void()> call) {
  using namespace runtime;
  if (!state_->healthy()) return detail::stream_poison(*state_);
  Timeline& line = timeline_of(*this);
  HostCall& record = enlist(line, std::move(call));
  line.touch();
  tn_error error = no_error();
  const int32_t code = line.api->host_call(line.handle, run, &record, &error);
  if (code == TN_OK) return {};
  Status status = code == TN_UNSUPPORTED ? sync() : detail::stream_failure(*state_, code, error);
  if (status.ok()) invoke(record);
  retire(record);
  return status;
}

}  // namespace tenon
