// SPDX-License-Identifier: Apache-2.0
// mini_plugin.cpp: see mini_plugin.hpp. One mutex and one condition guard all timelines of a plugin.
#include "mini_handles.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>

using namespace tenon::test::mini;
using tenon::test::MiniPlugin;

namespace {

MiniPlugin::State& state_of(const tn_plugin* plugin) {
  return *static_cast<MiniPlugin::State*>(plugin->context);
}

void run_queue(tn_stream* stream) {
  MiniPlugin::State& plugin = *stream->device->plugin;
  std::unique_lock lock(plugin.mutex);
  for (;;) {
    plugin.changed.wait(lock, [&] { return stream->ending || !stream->queue.empty(); });
    if (stream->queue.empty()) return;
    const auto work = std::move(stream->queue.front());
    stream->queue.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace

namespace tenon::test::mini {

void enqueue(tn_stream* stream, std::function<void()> work) {
  MiniPlugin::State& plugin = *stream->device->plugin;
  if (!plugin.options.asynchronous) return work();
  const std::lock_guard lock(plugin.mutex);
  stream->queue.push_back(std::move(work));
  plugin.changed.notify_all();
}

}  // namespace tenon::test::mini

namespace {

int32_t count(const tn_plugin*, uint32_t* out, tn_error*) { return *out = 2, TN_OK; }

int32_t info(const tn_plugin*, uint32_t ordinal, tn_device_info* out, tn_error* error) {
  if (ordinal >= 2) return fail(error, TN_NOT_FOUND, "two devices");
  tn_device_info full{};
  full.size = out->size;
  std::strcpy(full.name, "mini");
  std::memcpy(out, &full, out->size);
  return TN_OK;
}

int32_t open(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options*, tn_device** out,
             tn_error* error) {
  if (ordinal >= 2) return fail(error, TN_NOT_FOUND, "two devices");
  *out = new tn_device{&state_of(plugin), ordinal};
  ++(*out)->plugin->live;
  return TN_OK;
}

int32_t close(tn_device* device, tn_error* error) {
  if (device->children != 0) return fail(error, TN_BUSY, "children live");
  --device->plugin->live;
  delete device;
  return TN_OK;
}

int32_t limits(tn_device*, tn_device_limits* out, tn_error*) {
  tn_device_limits full{};
  full.size = out->size;
  full.alignment = 256;
  full.priorities = 1;
  std::memcpy(out, &full, out->size);
  return TN_OK;
}

int32_t memory_info(tn_device*, tn_memory_info* out, tn_error*) { return out->free_bytes = 1 << 30, TN_OK; }

int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** out,
              tn_error* error) {
  const uint64_t align = std::max<uint64_t>(alignment, 256);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(align, (bytes + align) / align * align));
  if (data == nullptr) return fail(error, TN_NO_MEMORY, "no memory");
  *out = new tn_memory{device, data, bytes, kind, true};
  adopt(device);
  return TN_OK;
}

int32_t free_memory(tn_memory* memory, tn_error*) {
  if (memory->owned) std::free(memory->data);
  drop(memory->device);
  delete memory;
  return TN_OK;
}

int32_t address(tn_memory* memory, uint64_t* out, tn_error* error) {
  const bool shown = memory->kind != TN_MEMORY_DEVICE ||
                     (memory->device->plugin->options.features & TN_FEATURE_ADDRESSABLE) != 0;
  if (!shown) return fail(error, TN_UNSUPPORTED, "not addressable");
  *out = reinterpret_cast<uint64_t>(memory->data);
  return TN_OK;
}

int32_t create(tn_device* device, const tn_stream_options*, tn_stream** out, tn_error*) {
  auto* stream =
      new tn_stream{.device = device, .line = std::make_shared<Timeline>(), .queue = {}, .thread = {}};
  if (device->plugin->options.asynchronous) stream->thread = std::thread(run_queue, stream);
  adopt(device);
  *out = stream;
  return TN_OK;
}

int32_t destroy(tn_stream* stream, uint32_t, tn_error*) {
  MiniPlugin::State& plugin = *stream->device->plugin;
  {
    const std::lock_guard lock(plugin.mutex);
    stream->ending = true;
    plugin.changed.notify_all();
  }
  if (stream->thread.joinable()) stream->thread.join();
  drop(stream->device);
  delete stream;
  return TN_OK;
}

int32_t copy(tn_stream* stream, const tn_span* dst, const tn_span* src, tn_error*) {
  ++stream->device->plugin->enqueued;
  std::byte* to = bytes_of(*dst);
  const uint64_t size = dst->bytes;
  if (size == 0) return TN_OK;
  if (src->space == TN_SPACE_HOST_ADDRESS) {  // consumed on return
    std::vector<std::byte> staged(bytes_of(*src), bytes_of(*src) + size);
    enqueue(stream, [to, staged = std::move(staged)] { std::memcpy(to, staged.data(), staged.size()); });
  } else {
    enqueue(stream, [to, from = bytes_of(*src), size] { std::memcpy(to, from, size); });
  }
  return TN_OK;
}

int32_t copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src, const tn_copy_shape* shape,
                     tn_error*) {
  ++stream->device->plugin->enqueued;
  const tn_copy_shape box = *shape;
  enqueue(stream, [to = bytes_of(*dst), from = bytes_of(*src), box] {
    for (uint64_t row = 0; row < box.extent[0]; ++row) {
      std::memcpy(to + row * box.dst_stride[0], from + row * box.src_stride[0], box.extent[1]);
    }
  });
  return TN_OK;
}

int32_t fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes, tn_error*) {
  ++stream->device->plugin->enqueued;
  enqueue(stream, [to = bytes_of(*dst), size = dst->bytes, pattern, pattern_bytes] {
    for (uint64_t at = 0; at < size; at += pattern_bytes) std::memcpy(to + at, &pattern, pattern_bytes);
  });
  return TN_OK;
}

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

int32_t record(tn_stream* stream, uint32_t, uint64_t* value, tn_error*) {
  MiniPlugin::State& plugin = *stream->device->plugin;
  uint64_t made = 0;
  {
    const std::lock_guard lock(plugin.mutex);
    made = *value = ++stream->line->newest;
  }
  enqueue(stream, [&plugin, line = stream->line, made] {
    const std::lock_guard lock(plugin.mutex);
    line->reached = made;
    line->times[made] = now_ns();
    plugin.changed.notify_all();
  });
  return TN_OK;
}

int32_t wait(tn_stream* stream, tn_stream* other, uint64_t value, tn_error*) {
  enqueue(stream, [&plugin = *stream->device->plugin, line = other->line, value] {
    std::unique_lock lock(plugin.mutex);
    plugin.changed.wait(lock, [&] { return line->reached >= value; });
  });
  return TN_OK;
}

int32_t query(tn_stream* stream, uint64_t* completed, tn_error*) {
  const std::lock_guard lock(stream->device->plugin->mutex);
  *completed = stream->line->reached;
  return TN_OK;
}

int32_t sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, tn_error* error) {
  MiniPlugin::State& plugin = *stream->device->plugin;
  std::unique_lock lock(plugin.mutex);
  const Timeline& line = *stream->line;
  const auto done = [&] { return line.reached >= value; };
  if (timeout_ns == TN_TIMEOUT_NEVER)
    plugin.changed.wait(lock, done);
  else if (!plugin.changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), done))
    return fail(error, TN_TIMEOUT, "not reached in time");
  return value < line.failed_from ? TN_OK : fail(error, line.failure, "signalled to fail", TN_ERROR_ASYNC);
}

int32_t timestamp(tn_stream* stream, uint64_t value, uint64_t* ns, tn_error* error) {
  const std::lock_guard lock(stream->device->plugin->mutex);
  const auto known = stream->line->times.find(value);
  if (known == stream->line->times.end()) return fail(error, TN_INVALID, "not reached");
  *ns = known->second;
  return TN_OK;
}

int32_t host_call(tn_stream* stream, void (*call)(void*), void* argument, tn_error*) {
  enqueue(stream, [call, argument] { call(argument); });
  return TN_OK;
}

int32_t promise(tn_stream* stream, uint64_t* value, tn_error*) {
  const std::lock_guard lock(stream->device->plugin->mutex);
  *value = ++stream->line->newest;
  stream->line->promised.insert(*value);
  return TN_OK;
}

int32_t signal(tn_stream* stream, uint64_t value, int32_t code, tn_error* error) {
  MiniPlugin::State& plugin = *stream->device->plugin;
  const std::lock_guard lock(plugin.mutex);
  if (stream->line->promised.erase(value) == 0) return fail(error, TN_INVALID, "not promised");
  stream->line->reached = std::max(stream->line->reached, value);
  if (code != TN_OK && stream->line->failure == TN_OK)
    stream->line->failed_from = value, stream->line->failure = code;
  plugin.changed.notify_all();
  return TN_OK;
}

int32_t import_stream(tn_device* device, uint64_t, tn_stream** out, tn_error* error) {
  return create(device, nullptr, out, error);
}

int32_t import_memory(tn_device* device, uint64_t at, uint64_t bytes, tn_memory** out, tn_error*) {
  *out = new tn_memory{device, reinterpret_cast<std::byte*>(at), bytes, TN_MEMORY_DEVICE, false};
  adopt(device);
  return TN_OK;
}

const void* extension(const tn_plugin* plugin, const char* id) {
  MiniPlugin::State& state = state_of(plugin);
  return state.options.has_import && std::strcmp(id, TN_IMPORT_ID) == 0 ? &state.import : nullptr;
}

int32_t quiesce(const tn_plugin*, tn_error*) { return TN_OK; }

int32_t shutdown(const tn_plugin* plugin, tn_error* error) {
  return state_of(plugin).live == 0 ? TN_OK : fail(error, TN_BUSY, "handles live");
}

}  // namespace

namespace tenon::test {

MiniPlugin::MiniPlugin(MiniOptions options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = std::move(options);
  s.device = {{sizeof s.device, 1, 0},
              count,
              info,
              open,
              close,
              limits,
              memory_info,
              alloc,
              free_memory,
              address,
              nullptr};
  s.stream = {.header = {sizeof s.stream, 1, 0},
              .create = create,
              .destroy = destroy,
              .copy = copy,
              .copy_strided = copy_strided,
              .fill = fill,
              .record = record,
              .wait = wait,
              .query = query,
              .sync = sync,
              .timestamp = timestamp,
              .host_call = host_call,
              .promise = nullptr,
              .signal = nullptr};
  if (s.options.asynchronous) s.stream.promise = promise, s.stream.signal = signal;
  s.kernel = mini::kernel_table();
  s.comm = mini::comm_table();
  s.import = {{sizeof s.import, 1, 0}, import_stream, import_memory, nullptr};
  s.descriptor = {{sizeof s.descriptor, 1, 0},
                  s.options.name.c_str(),
                  "Tenon",
                  "1.0.0",
                  s.options.features,
                  &s,
                  &s.device,
                  &s.stream,
                  &s.kernel,
                  s.options.has_comm ? &s.comm : nullptr,
                  extension,
                  quiesce,
                  shutdown};
}

MiniPlugin::~MiniPlugin() = default;
const tn_plugin& MiniPlugin::descriptor() const { return state_->descriptor; }
int MiniPlugin::live() const { return state_->live; }
int MiniPlugin::enqueued() const { return state_->enqueued; }

}  // namespace tenon::test
