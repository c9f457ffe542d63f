// SPDX-License-Identifier: Apache-2.0
// honest.cpp: the honest plugin's work. A stream is a queue and a thread; nothing is done inside the caller's call.
#include "honest.hpp"

#include "wrong.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

namespace honest {

namespace {

constexpr uint64_t total_bytes = uint64_t{1} << 34;
constexpr uint32_t max_streams = 200;
std::atomic<uint64_t> used_bytes{0};

// Every stream that lives, for quiesce.
struct Registry {
  std::mutex mutex;
  std::set<Stream*> streams;
};
// It outlives whatever the process destroys at its end, and ends with the library's own pages.
Registry& registry() {
  alignas(Registry) static std::byte room[sizeof(Registry)];
  static Registry* const all = new (room) Registry;
  return *all;
}

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

// Calls `row` with the offsets of each row of the box.
template <class Row>
void each_row(const tn_copy_shape& box, uint32_t dimension, uint64_t to, uint64_t from, const Row& row) {
  if (dimension == 3 || dimension + 1 == box.rank) {  // a box has at most four
    row(to, from, box.extent[dimension]);
    return;
  }
  for (uint64_t i = 0; i < box.extent[dimension]; ++i) {
    each_row(box, dimension + 1, to + i * box.dst_stride[dimension], from + i * box.src_stride[dimension],
             row);
  }
}

Status alive() {
  if (!trouble().lost) return {};
  return Status(TN_DEVICE_LOST, "the device is lost, as option lost_at asked: destroy what is left of it");
}

}  // namespace

Trouble& trouble() {
  static Trouble ordered;
  return ordered;
}

std::byte* place(const tn_span& span) {
  if (span.space != TN_SPACE_MEMORY) return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(span.offset));
  return tenon::author::object<Memory>(span.memory).data() + span.offset;
}

Memory::~Memory() {
  std::free(data_);
  used_bytes -= bytes_;
}

void Timeline::reach(uint64_t value, bool timed) {
  const std::lock_guard lock(mutex);
  reached = value;
  if (timed) times[value] = now_ns();
  changed.notify_all();
}

bool Timeline::await(uint64_t value, uint64_t timeout_ns) {
  std::unique_lock lock(mutex);
  const auto there = [&] { return reached >= value || failure != TN_OK; };
  if (timeout_ns == TN_TIMEOUT_NEVER) {
    changed.wait(lock, there);
    return true;
  }
  const uint64_t most = uint64_t{3600} * 1'000'000'000;
  return changed.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, most)), there);
}

Stream::Stream() : thread_([this] { run(); }) {
  const std::lock_guard lock(registry().mutex);
  registry().streams.insert(this);
}

Stream::~Stream() {
  {
    const std::lock_guard lock(registry().mutex);
    registry().streams.erase(this);
  }
  stop(true);
}

void Stream::drain() {
  const auto value = record(0);
  if (value.ok()) timeline_->await(*value, TN_TIMEOUT_NEVER);
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (++trouble().commands == trouble().lost_at) lose();
    if (!trouble().lost) work();
    lock.lock();
  }
}

void Stream::lose() {
  trouble().lost = true;
  const std::lock_guard lock(registry().mutex);
  for (Stream* const stream : registry().streams) {
    Timeline& timeline = *stream->timeline_;
    const std::lock_guard own(timeline.mutex);
    if (timeline.failure == TN_OK) timeline.failure = TN_DEVICE_LOST;
    timeline.changed.notify_all();
  }
}

void Stream::stop(bool drop) {
  {
    const std::lock_guard lock(mutex_);
    if (drop) queue_.clear();
    abandoned_ = drop;
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Stream::failure() {
  const std::lock_guard lock(timeline_->mutex);
  if (timeline_->failure == TN_OK) return {};
  timeline_->told = true;
  return Status(Error{.code = timeline_->failure,
                      .message = "the stream failed earlier: destroy it and make another",
                      .flags = TN_ERROR_ASYNC});
}

Status Stream::enqueue(std::function<void()> work) {
  TN_TRY(failure());
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
  return {};
}

Status Stream::copy(const tn_span& dst, const tn_span& src) {
  std::byte* const to = place(dst);
  if (src.space != TN_SPACE_HOST_ADDRESS) {
    return enqueue([to, from = place(src), bytes = src.bytes] { std::memcpy(to, from, bytes); });
  }
  std::vector<std::byte> kept(place(src), place(src) + src.bytes);  // a pageable source is consumed on return
  return enqueue([to, kept = std::move(kept)] { std::memcpy(to, kept.data(), kept.size()); });
}

Status Stream::copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape) {
  std::byte* const to = place(dst);
  const std::byte* from = place(src);
  std::vector<std::byte> kept;
  if (src.space == TN_SPACE_HOST_ADDRESS) kept.assign(from, from + src.bytes);
  const bool pageable = src.space == TN_SPACE_HOST_ADDRESS;
  return enqueue([to, from, pageable, shape, kept = std::move(kept)] {
    const std::byte* const begin = pageable ? kept.data() : from;
    each_row(shape, 0, 0, 0, [&](uint64_t a, uint64_t b, uint64_t n) { std::memcpy(to + a, begin + b, n); });
  });
}

Status Stream::fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) {
  return enqueue([to = place(dst), bytes = dst.bytes, pattern, pattern_bytes] {
    for (uint64_t i = 0; i < bytes; i += pattern_bytes) std::memcpy(to + i, &pattern, pattern_bytes);
  });
}

Result<uint64_t> Stream::record(uint32_t flags) {
  uint64_t value = 0;
  {
    const std::lock_guard lock(timeline_->mutex);
    value = ++timeline_->issued;
  }
  TN_TRY(enqueue(
      [timeline = timeline_, value, flags] { timeline->reach(value, (flags & TN_RECORD_TIMED) != 0); }));
  return value;
}

Status Stream::wait(Stream& other, uint64_t value) {
  return enqueue([this, timeline = other.timeline_, value] {
    while (!timeline->await(value, 1'000'000) && !abandoned_) continue;
  });
}

Result<uint64_t> Stream::completed() {
  TN_TRY(failure());
  const std::lock_guard lock(timeline_->mutex);
  return timeline_->reached;
}

Status Stream::sync(uint64_t value, uint64_t timeout_ns) {
  if (!timeline_->await(value, timeout_ns))
    return Status(TN_TIMEOUT, "the value was not reached in time: ask again");
  const std::unique_lock lock(timeline_->mutex);
  if (timeline_->reached >= value) return {};
  timeline_->told = true;
  return Status(Error{.code = timeline_->failure,
                      .message = "the stream failed before this value was reached",
                      .flags = TN_ERROR_ASYNC});
}

Result<uint64_t> Stream::timestamp(uint64_t value) {
  const std::lock_guard lock(timeline_->mutex);
  const auto found = timeline_->times.find(value);
  if (found != timeline_->times.end()) return found->second;
  return Status(TN_INVALID, "this value is not reached, or was recorded without TIMED");
}

Status Stream::host_call(void (*call)(void*), void* argument) {
  return enqueue([call, argument] { call(argument); });
}

Result<uint64_t> Stream::promise() {
  TN_TRY(failure());
  const std::lock_guard lock(timeline_->mutex);
  timeline_->promised.insert(++timeline_->issued);
  return timeline_->issued;
}

Status Stream::signal(uint64_t value, int32_t code) {
  const std::lock_guard lock(timeline_->mutex);
  if (timeline_->promised.erase(value) == 0) {
    return Status(TN_INVALID, "this value was not promised, or is kept already: signal a promise once");
  }
  if (code != TN_OK && timeline_->failure == TN_OK) timeline_->failure = code;
  const uint64_t next = timeline_->promised.empty() ? timeline_->issued + 1 : *timeline_->promised.begin();
  if (timeline_->failure == TN_OK) timeline_->reached = std::max(timeline_->reached, next - 1);
  timeline_->changed.notify_all();
  return {};
}

Status Stream::finish(uint32_t mode) {
  Error last{.code = TN_OK};
  {
    const std::lock_guard lock(timeline_->mutex);
    if (!timeline_->told) last.code = timeline_->failure;
    if (!timeline_->promised.empty() && timeline_->failure == TN_OK) timeline_->failure = TN_ABORTED;
  }
  timeline_->changed.notify_all();
  stop(mode == TN_DESTROY_ABANDON);
  if (last.code == TN_OK) return {};
  last.message = "the stream had failed, and nobody was told";
  last.flags = TN_ERROR_ASYNC;
  return Status(std::move(last));
}

void Device::limits(tn_device_limits& out) const {
  out.alignment = TN_MEMORY_ALIGNMENT;
  out.max_streams = max_streams;
  out.priorities = 2;
}

Status Device::memory_info(tn_memory_info& out) {
  out.total_bytes = total_bytes;
  out.used_here_bytes = used_bytes;
  out.free_bytes = total_bytes - used_bytes;
  return {};
}

Result<std::unique_ptr<Memory>> Device::allocate(uint32_t /*kind*/, uint64_t bytes, uint64_t alignment) {
  const uint64_t used = used_bytes;
  void* data = nullptr;
  TN_TRY(alive());
  const bool ordered = ++trouble().allocations == trouble().oom_at;
  if (ordered || bytes > total_bytes - used || (bytes > 0 && posix_memalign(&data, alignment, bytes) != 0)) {
    return Status(TN_NO_MEMORY, tenon::author::text("asked for ", bytes, " bytes, ", total_bytes - used,
                                                    " of ", total_bytes, " are free: free some first"));
  }
  used_bytes += bytes;
  return std::make_unique<Memory>(data, bytes);
}

Result<std::unique_ptr<Stream>> Device::create_stream(const tn_stream_options& /*options*/) {
  TN_TRY(alive());
  return std::make_unique<Stream>();
}

Plugin::Plugin(tenon::author::Host host) {
  const auto ordered = [&](const char* key) {
    const auto count = host.integer(key, 0, 0, INT64_MAX);
    return count.ok() ? static_cast<uint64_t>(*count) : 0;
  };
  trouble().lost_at = ordered("lost_at");
  trouble().oom_at = ordered("oom_at");
}

Result<std::unique_ptr<Device>> Plugin::open(uint32_t /*ordinal*/, const tn_device_options& /*options*/) {
  TN_TRY(alive());
  return std::make_unique<Device>();
}

Status Plugin::describe(uint32_t /*ordinal*/, tn_device_info& out) {
  out.kind = TN_DEVICE_OTHER;
  tenon::author::set_text(out.name, "an honest device");
  tenon::author::set_text(out.id, "honest0");
  out.memory_bytes = total_bytes;
  out.dlpack_type = 1;
  out.compute_units = 1;
  return {};
}

Status Plugin::quiesce() {
  const std::lock_guard lock(registry().mutex);
  for (Stream* const stream : registry().streams) stream->drain();
  return {};
}

}  // namespace honest

const tn_plugin* honest_entry(const tn_host* host, tn_error* error) {
  return tenon::author::entry<honest::Plugin>(host, error);
}
