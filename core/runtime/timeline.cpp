// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: how a stream opens, ends, and how the failure of one becomes the failure of those that waited for it.
//
// Invariant: lock order is bridge, then all_lines, then settling; the plugin is asked under them only without blocking.
#include "runtime/timeline.hpp"

#include "plugin/early.hpp"
#include "runtime/bridge.hpp"
#include "runtime/device_state.hpp"
#include "runtime/host_call.hpp"
#include "runtime/pool/cache.hpp"

#include <algorithm>
#include <thread>

namespace tenon::runtime {
namespace {

// Every open stream of the process; walked only when one of them fails.
struct Lines {
  std::mutex mutex;
  Timeline* newest = nullptr;
};
Lines& all_lines() {
  static Lines& lines = *new Lines;  // outlives every stream, also those that static objects keep
  return lines;
}

void enlist(Timeline& line) {
  Lines& lines = all_lines();
  const std::lock_guard lock(lines.mutex);
  line.older = lines.newest;
  if (line.older != nullptr) line.older->newer = &line;
  lines.newest = &line;
}

void delist(Timeline& line) {
  Lines& lines = all_lines();
  const std::lock_guard lock(lines.mutex);
  (line.newer != nullptr ? line.newer->older : lines.newest) = line.older;
  if (line.older != nullptr) line.older->newer = line.newer;
}

bool set_poison(Timeline& line, std::unique_ptr<Poison> given) noexcept {
  const Poison* none = nullptr;
  if (!line.poison.compare_exchange_strong(none, given.get(), std::memory_order_seq_cst)) return false;
  (void)given.release();  // the line owns it
  line.poisoned.store(1, std::memory_order_seq_cst);
  return true;
}

// Whether `value` of `source` is lost as far as anyone knows; asks the plugin only about streams that failed.
bool known_lost(Timeline& source, uint64_t value) noexcept {
  const Poison* known = source.poison.load(std::memory_order_seq_cst);
  if (known == nullptr || value <= source.reached.load(std::memory_order_acquire)) return false;
  if (known->carried) return value > known->since;
  const Pin pin(source);
  if (!pin) return source.phase.load(std::memory_order_acquire) == Phase::closed;
  tn_error error = no_error();
  const int32_t code = source.api->sync(source.handle, value, 0, &error);
  return code != TN_OK && !plugin::is_early(code, error);
}

std::unique_ptr<Poison> carried_poison(const Timeline& line, const Timeline& source, uint64_t since) {
  const Poison& cause = *source.poison.load(std::memory_order_acquire);
  auto made = std::make_unique<Poison>(Poison{.error = cause.error, .since = since, .carried = true});
  made->error.message = "stream '" + line.name + "' waited for " + cause.origin;
  made->error.flags |= TN_ERROR_ASYNC;
  made->origin = "stream '" + line.name + "', which waited for " + cause.origin;
  return made;
}

// Poisons `line` if one of its waits is for a lost value.
bool infect(Timeline& line) {
  const std::lock_guard lock(line.settling);
  bool changed = false;
  line.upstream.each([&](const Upstream& wait) {
    if (!known_lost(*wait.source, wait.value)) return true;
    changed = set_poison(line, carried_poison(line, *wait.source, wait.since));
    return false;
  });
  return changed;
}

// Carries known failures along all waits until nothing changes.
void spread() {
  Lines& lines = all_lines();
  const std::lock_guard lock(lines.mutex);
  for (bool changed = true; changed;) {
    changed = false;
    for (Timeline* line = lines.newest; line != nullptr; line = line->older)
      if (line->healthy() && infect(*line)) changed = true;
  }
}

// Waits until nobody who holds only the husk is inside the plugin.
void shut(Timeline& line) noexcept {
  line.phase.store(Phase::closing, std::memory_order_seq_cst);
  while (line.pins.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

void end_plugin_stream(Timeline& line) {
  const bool healthy = line.healthy();
  tn_error error = no_error();
  const int32_t code =
      line.api->destroy(line.handle, healthy ? TN_DESTROY_COMPLETE : TN_DESTROY_ABANDON, &error);
  if (code != TN_OK && healthy) {
    const Status failure = status_of(code, error);
    poison(line, failure.error());
    line.device->log(
        LogLevel::warn,
        "stream '" + line.name + "' failed, and nobody was told before it ended: " + failure.error().message);
  }
  const bool cut = forget_bridges(line);
  if (line.promises != nullptr)
    line.api->destroy(line.promises, cut ? TN_DESTROY_ABANDON : TN_DESTROY_COMPLETE, nullptr);
}

// The verdict on every value is final after this, and nothing is held any more.
void end_verdicts(Timeline& line) {
  line.phase.store(Phase::closed, std::memory_order_seq_cst);
  Status why;
  const uint64_t last = TN_TIMEOUT_NEVER;
  if (line.healthy()) static_cast<void>(judge(line, last, Deadline::never(), why));
  const std::lock_guard lock(line.settling);
  while (const Upstream* wait = line.upstream.front()) {
    Timeline* source = wait->source;
    line.upstream.pop();
    drop(*source);
  }
}

}  // namespace

void hold(Timeline& line) noexcept { line.holders.fetch_add(1, std::memory_order_relaxed); }

void drop(Timeline& line) noexcept {
  if (line.holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &line;
}

Timeline::~Timeline() { delete poison.load(); }

bool call_witness(Timeline& line, const std::weak_ptr<Witness>& witness, std::weak_ptr<Witness>* last) {
  const auto is_it = [&](const std::weak_ptr<Witness>& known) {
    return !known.owner_before(witness) && !witness.owner_before(known);
  };
  if (is_it(line.latest_witness)) return false;
  if (last != nullptr) *last = line.latest_witness;
  line.latest_witness = witness;
  const std::lock_guard lock(line.witness_mutex);
  std::erase_if(line.witnesses, [](const auto& known) { return known.expired(); });
  if (std::ranges::any_of(line.witnesses, is_it)) return false;
  line.witnesses.push_back(witness);
  return true;
}

bool find_cause(Timeline& line, Error& failure, const Deadline& deadline) {
  std::vector<std::weak_ptr<Witness>> witnesses;
  {
    const std::lock_guard lock(line.witness_mutex);
    witnesses = line.witnesses;
  }
  for (const auto& known : witnesses) {
    const auto witness = known.lock();
    while (witness != nullptr && !witness->settled(failure)) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  return true;
}

void poison(Timeline& line, const Error& error) {
  auto made = std::make_unique<Poison>(Poison{.error = error});
  made->error.flags |= TN_ERROR_ASYNC;
  made->origin = "stream '" + line.name + "', which failed: " + error.message;
  if (set_poison(line, std::move(made))) spread();
}

void carry(Timeline& line, const Timeline& source, uint64_t since) {
  if (set_poison(line, carried_poison(line, source, since))) spread();
}

Status told(const Timeline& line) { return Status(line.poison.load(std::memory_order_acquire)->error); }

Result<Stream> open_stream(const std::shared_ptr<detail::DeviceState>& device, StreamOptions options) {
  static std::atomic<uint64_t> unnamed{0};
  auto line = std::make_unique<Timeline>();
  line->device = device;
  line->plugin = device->plugin;
  line->api = device->plugin->stream;
  line->home = device->handle;
  line->name = options.name.empty() ? device->name + "/stream" + std::to_string(unnamed.fetch_add(1))
                                    : std::move(options.name);
  const tn_stream_options given{.size = sizeof(tn_stream_options),
                                .priority = options.priority,
                                .name = line->name.c_str(),
                                .next = nullptr};
  tn_error error = no_error();
  TN_TRY(status_of(line->api->create(device->handle, &given, &line->handle, &error), error));
  enlist(*line);
  return Stream(detail::Ref<detail::StreamState>::adopt(line.release()));
}

}  // namespace tenon::runtime

namespace tenon::detail {

void StreamState::destroy(StreamState* state) noexcept {
  runtime::Timeline& line = runtime::timeline_of(*state);
  runtime::delist(line);
  runtime::shut(line);
  runtime::end_plugin_stream(line);
  runtime::end_verdicts(line);
  for (auto& cache : line.caches)
    if (runtime::Cache* mine = cache.load()) mine->retire(line.device);
  runtime::drop_calls(line);
  const std::shared_ptr<DeviceState> device = std::move(line.device);  // ends after the husk is let go
  runtime::drop(line);
}

Status stream_poison(const StreamState& state) {
  const auto& line = static_cast<const runtime::Timeline&>(state);
  // `poisoned` is set after the poison itself, and read without order.
  while (line.poison.load(std::memory_order_acquire) == nullptr) std::this_thread::yield();
  return runtime::told(line);
}

Status stream_elsewhere(const StreamState& state) {
  const auto& line = static_cast<const runtime::Timeline&>(state);
  return Status(TN_INVALID, "a kernel of another device is launched on stream '" + line.name +
                                "' of device '" + line.device->name +
                                "': use a stream of the device that it was compiled for");
}

Status stream_failure(StreamState& state, int32_t code, const tn_error& error) {
  Status failure = status_of(code, error);
  if (code != TN_DEVICE_LOST && (error.flags & TN_ERROR_ASYNC) == 0) return failure;
  Error cause = failure.error();
  runtime::Timeline& line = runtime::timeline_of(state);
  static_cast<void>(runtime::find_cause(line, cause, runtime::Deadline::never()));
  runtime::poison(line, cause);
  return Status(std::move(cause));
}

}  // namespace tenon::detail
