// SPDX-License-Identifier: Apache-2.0
// fake_stream.cpp: the fake's streams; see fake_world.hpp for how they move.
// Invariant: a call that a plugin may lack is left out of the table when the test says so.
#include "fake_world.hpp"

namespace tenon::test::fake {
namespace {

int32_t create(tn_device* device, const tn_stream_options* options, tn_stream** out, tn_error* error) {
  const Lock lock(mutex);
  ++device->plugin->calls.create;
  if (options->priority > 1) return fail(error, TN_INVALID, "priority " + std::to_string(options->priority));
  *out = new tn_stream{};
  (*out)->plugin = device->plugin;
  (*out)->device = device;
  streams.insert(*out);
  ++device->plugin->live;
  return TN_OK;
}

int32_t destroy(tn_stream* stream, uint32_t mode, tn_error* error) {
  Lock lock(mutex);
  State& state = *stream->plugin;
  ++state.calls.destroy;
  if (mode == TN_DESTROY_ABANDON) {
    ++state.calls.abandon;
    stream->commands.clear();
  }
  stream->allowed = UINT64_MAX;
  run_all();
  moved.wait(lock, [&] { return stream->commands.empty(); });
  const int32_t code = stream->failure != TN_OK && mode == TN_DESTROY_COMPLETE ? told(*stream, error) : TN_OK;
  streams.erase(stream);
  delete stream;
  --state.live;
  run_all();
  return code;
}

int32_t copy(tn_stream* stream, const tn_span* dst, const tn_span* src, tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.copy;
  auto work = [plugin = stream->plugin, to = *dst, from = *src] {
    unsigned char* target = place(*plugin, to);
    const unsigned char* origin = place(*plugin, from);
    if (target != nullptr && origin != nullptr) std::memcpy(target, origin, from.bytes);
  };
  return enqueue(stream, {.work = work}, error);
}

int32_t copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src, const tn_copy_shape* shape,
                     tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.copy_strided;
  if (shape->rank != 2) return fail(error, TN_UNSUPPORTED, "the fake copies rank 2");
  auto work = [plugin = stream->plugin, to = *dst, from = *src, box = *shape] {
    for (uint64_t row = 0; row < box.extent[0]; ++row)
      std::memcpy(place(*plugin, to) + row * box.dst_stride[0],
                  place(*plugin, from) + row * box.src_stride[0], box.extent[1]);
  };
  return enqueue(stream, {.work = work}, error);
}

int32_t fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
             tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.fill;
  if (pattern_bytes != 1) return fail(error, TN_INVALID, "the fake fills bytes");
  auto work = [plugin = stream->plugin, to = *dst, pattern] {
    if (unsigned char* target = place(*plugin, to)) std::memset(target, static_cast<int>(pattern), to.bytes);
  };
  return enqueue(stream, {.work = work}, error);
}

int32_t record(tn_stream* stream, uint32_t, uint64_t* value, tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.record;
  if (stream->failed_at != UINT64_MAX) return told(*stream, error);
  *value = stream->enqueued;
  return TN_OK;
}

int32_t wait(tn_stream* stream, tn_stream* other, uint64_t value, tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.wait;
  if (value > other->enqueued)
    return fail(error, TN_INVALID, "value " + std::to_string(value) + " was never recorded");
  return enqueue(stream, {.other = other, .value = value}, error);
}

int32_t query(tn_stream* stream, uint64_t* completed, tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.query;
  if (stream->completed >= stream->failed_at) return told(*stream, error);
  *completed = stream->plugin->options.query_lags ? stream->told : stream->completed;
  return TN_OK;
}

int32_t sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, tn_error* error) {
  Lock lock(mutex);
  ++stream->plugin->calls.sync;
  if (timeout_ns != 0) ++stream->plugin->calls.blocking_sync;
  if (value > stream->enqueued)
    return fail(error, TN_INVALID, "value " + std::to_string(value) + " was never recorded");
  const auto done = [&] { return stream->completed >= value; };
  if (timeout_ns == TN_TIMEOUT_NEVER)
    moved.wait(lock, done);
  else
    moved.wait_for(lock, std::chrono::nanoseconds(timeout_ns), done);
  if (stream->completed < value) return fail(error, TN_TIMEOUT, "the fake stands still");
  stream->told = std::max(stream->told, value);
  return value >= stream->failed_at ? told(*stream, error) : TN_OK;
}

int32_t timestamp(tn_stream*, uint64_t value, uint64_t* ns, tn_error*) {
  *ns = value * 1000;
  return TN_OK;
}

int32_t host_call(tn_stream* stream, void (*call)(void*), void* argument, tn_error* error) {
  const Lock lock(mutex);
  return enqueue(stream, {.work = [call, argument] { call(argument); }}, error);
}

int32_t promise(tn_stream* stream, uint64_t* value, tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.promise;
  if (stream->failure != TN_OK) return told(*stream, error);
  *value = ++stream->enqueued;
  stream->commands.push_back({.promise = true});
  return TN_OK;
}

int32_t signal(tn_stream* stream, uint64_t value, int32_t code, tn_error* error) {
  const Lock lock(mutex);
  ++stream->plugin->calls.signal;
  if (!stream->signalled.insert(value).second) return fail(error, TN_INVALID, "signalled twice");
  if (code != TN_OK) {
    stream->failure = code;
    stream->failure_text = "a promise was broken";
  }
  run_all();
  return TN_OK;
}

}  // namespace

tn_stream_api stream_table(const FakeOptions& options) {
  return {{sizeof(tn_stream_api), 1, 0},
          create,
          destroy,
          copy,
          options.strided ? copy_strided : nullptr,
          fill,
          record,
          wait,
          query,
          sync,
          options.timestamps ? timestamp : nullptr,
          options.host_calls ? host_call : nullptr,
          options.promises ? promise : nullptr,
          options.promises ? signal : nullptr};
}

}  // namespace tenon::test::fake
