// SPDX-License-Identifier: Apache-2.0
// wait.cpp: the slow path of Stream::wait, for values not known to be reached.
//
// Invariant: no lock is waited for and nothing is allocated in a steady state (bridged waits excepted). Every wait that
// was enqueued is remembered as a dependency until it is known to be met.
#include "runtime/bridge.hpp"
#include "runtime/device_state.hpp"
#include "runtime/timeline.hpp"

namespace tenon::runtime {
namespace {

bool plugin_connects(const Timeline& line, const Timeline& source) noexcept {
  if (line.plugin != source.plugin) return false;
  return line.device->handle == source.device->handle ||
         (line.plugin->features & TN_FEATURE_CROSS_DEVICE_WAIT) != 0;
}

Status enqueue(Timeline& line, Timeline& source, uint64_t value) {
  tn_error error = no_error();
  if (plugin_connects(line, source)) {
    const int32_t code = line.api->wait(line.handle, source.handle, value, &error);
    return code == TN_OK ? Status() : detail::stream_failure(line, code, error);
  }
  const int32_t code =
      source.api->sync(source.handle, value, 0, &error);  // its plugin alone knows which values exist
  if (code == TN_INVALID) return status_of(code, error);
  return bridge(line, source, value);
}

// Lets go of what was met; skipped when another thread is at it.
void tidy(Timeline& line) {
  const std::unique_lock lock(line.settling, std::try_to_lock);
  if (!lock.owns_lock()) return;
  while (const Upstream* wait = line.upstream.front()) {
    Timeline* source = wait->source;
    if (wait->value > source->reached.load(std::memory_order_acquire)) break;
    line.upstream.pop();
    drop(*source);
  }
}

void depend(Timeline& line, Timeline& source, uint64_t value) {
  if (line.upstream.at_boundary()) tidy(line);
  hold(source);
  line.upstream.push({&source, value, line.recorded.load(std::memory_order_relaxed)});
}

Status lost(Timeline& line, Timeline& source) {
  carry(line, source, line.recorded.load(std::memory_order_relaxed));
  return told(line);
}

}  // namespace
}  // namespace tenon::runtime

namespace tenon::detail {

Status stream_wait(StreamState& state, StreamState& other, uint64_t value) {
  using namespace runtime;
  Timeline& line = timeline_of(state);
  Timeline& source = timeline_of(other);
  if (&line == &source) {
    if (value <= line.recorded.load(std::memory_order_relaxed)) return {};
    return enqueue(line, source, value);
  }
  Status why;
  // If the answer lags, the device waits for what is reached, which costs little.
  switch (judge(source, value, Deadline::glance(), why)) {
    case Fate::reached:
      return {};
    case Fate::refused:
      return why;
    case Fate::lost:
      return lost(line, source);
    case Fate::pending:
      break;
  }
  line.touch();
  TN_TRY(enqueue(line, source, value));
  depend(line, source, value);
  // A failure that came in between found no dependency to follow.
  if (!source.healthy() && judge(source, value, Deadline::now(), why) == Fate::lost)
    return lost(line, source);
  return {};
}

}  // namespace tenon::detail
