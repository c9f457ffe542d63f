// SPDX-License-Identifier: Apache-2.0
// stream.cpp: what streams and points do off the hot path.
//
// Invariant: every verdict goes through judge(), so a point is reached only when what it depends on is sound.
#include "runtime/device_state.hpp"
#include "runtime/host_call.hpp"
#include "runtime/stage.hpp"
#include "runtime/stay.hpp"
#include "runtime/timeline.hpp"

namespace tenon {
namespace {

std::string not_yet(const runtime::Timeline& line, uint64_t value) {
  return "stream '" + line.name + "' has not reached " + std::to_string(value) +
         " in time (it is known to have reached " +
         std::to_string(line.reached.load(std::memory_order_relaxed)) +
         "): wait longer, or look for what holds it up";
}

Status waits_for_itself(const runtime::Timeline& line) {
  return Status(TN_INVALID, "a host call of stream '" + line.name +
                                "' waits for the stream, which waits for the call: wait outside of it");
}

Status sync_value(runtime::Timeline& line, uint64_t value, const runtime::Deadline& deadline) {
  if (runtime::is_in_call_of(line) && line.reached.load(std::memory_order_acquire) < value)
    return waits_for_itself(line);
  const runtime::Stay::Here here(line, value, deadline);
  Status why;
  for (;;) {
    switch (runtime::judge(line, value, deadline, why)) {
      case runtime::Fate::reached:
        return {};
      case runtime::Fate::lost:
        return runtime::told(line);
      case runtime::Fate::refused:
        return why;
      case runtime::Fate::pending:
        break;
    }
    if (deadline.passed()) return Status(TN_TIMEOUT, not_yet(line, value));
  }
}

}  // namespace

Result<bool> Point::reached() const {
  if (!stream_) return true;
  runtime::Timeline& line = runtime::timeline_of(*stream_);
  Status why;
  switch (runtime::judge(line, value_, runtime::Deadline::now(), why)) {
    case runtime::Fate::reached:
      return true;
    case runtime::Fate::lost:
      return runtime::told(line);
    case runtime::Fate::refused:
      return why;
    default:
      return false;
  }
}

Status Point::sync(Timeout timeout) const {
  if (!stream_ || value_ <= stream_->reached.load(std::memory_order_acquire)) return {};
  return sync_value(runtime::timeline_of(*stream_), value_, runtime::Deadline::after(timeout));
}

Result<uint64_t> Point::timestamp() const {
  if (!stream_)
    return Status(TN_INVALID, "a point of no stream has no timestamp: take it from Stream::record");
  uint64_t ns = 0;
  tn_error error = no_error();
  const int32_t code = stream_->api->timestamp(stream_->handle, value_, &ns, &error);
  if (code != TN_OK) return detail::stream_failure(*stream_, code, error);
  return ns;
}

Status Stream::sync(Timeout timeout) {
  if (runtime::is_in_call_of(runtime::timeline_of(*this)))
    return waits_for_itself(runtime::timeline_of(*this));
  const auto deadline = runtime::Deadline::after(timeout);
  Result<uint64_t> value = record_value();
  if (value.code() == TN_NO_MEMORY) {
    // As many values are outstanding as the device keeps: see the newest of them out, and there is room.
    const uint64_t newest = state_->recorded.load(std::memory_order_relaxed);
    TN_TRY(sync_value(runtime::timeline_of(*this), newest, deadline));
    value = record_value();
  }
  if (!value.ok()) return std::move(value).failure();
  return sync_value(runtime::timeline_of(*this), *value, deadline);
}

Status Stream::fill(const tn_span& destination, uint64_t pattern, uint32_t pattern_bytes) {
  if (!state_->healthy()) return detail::stream_poison(*state_);
  if (destination.bytes == 0) return {};
  if (runtime::several_devices())
    TN_TRY(runtime::check_home(runtime::timeline_of(*this), destination, "fill: the destination"));
  state_->touch();
  tn_error error = no_error();
  const int32_t code = state_->api->fill(state_->handle, &destination, pattern, pattern_bytes, &error);
  return code == TN_OK ? Status() : detail::stream_failure(*state_, code, error);
}

std::string_view Stream::name() const noexcept { return runtime::timeline_of(*this).name; }

}  // namespace tenon
