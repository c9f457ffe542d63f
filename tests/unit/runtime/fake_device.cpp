// SPDX-License-Identifier: Apache-2.0
// fake_device.cpp: the fake's devices and their memory, which is the host's.
// Invariant: what is alive is counted, so a test sees what was left behind.
#include "fake_world.hpp"

namespace tenon::test::fake {
namespace {

int32_t count(const tn_plugin* plugin, uint32_t* out, tn_error*) {
  *out = state_of(plugin).options.devices;
  return TN_OK;
}

int32_t info(const tn_plugin* plugin, uint32_t ordinal, tn_device_info* out, tn_error* error) {
  State& state = state_of(plugin);
  if (ordinal >= state.options.devices) return fail(error, TN_NOT_FOUND, "no such fake");
  out->kind = state.options.kind;
  std::snprintf(out->name, sizeof out->name, "fake %u", ordinal);
  out->memory_bytes = state.options.memory_bytes;
  return TN_OK;
}

int32_t open(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options*, tn_device** out,
             tn_error* error) {
  const Lock lock(mutex);
  State& state = state_of(plugin);
  ++state.calls.open;
  if (ordinal >= state.options.devices) return fail(error, TN_NOT_FOUND, "no such fake");
  *out = new tn_device{&state, ordinal};
  ++state.live;
  return TN_OK;
}

int32_t close(tn_device* device, tn_error* error) {
  const Lock lock(mutex);
  State& state = *device->plugin;
  ++state.calls.close;
  for (const tn_stream* stream : streams)
    if (stream->device == device) return fail(error, TN_BUSY, "a stream of this fake device lives");
  --state.live;
  delete device;
  return TN_OK;
}

int32_t limits(tn_device* device, tn_device_limits* out, tn_error*) {
  out->alignment = device->plugin->options.alignment;
  out->max_streams = 0;
  out->priorities = 2;
  return TN_OK;
}

int32_t memory_info(tn_device* device, tn_memory_info* out, tn_error*) {
  const Lock lock(mutex);
  const State& state = *device->plugin;
  out->total_bytes = state.options.memory_bytes;
  out->free_bytes = state.options.memory_bytes - std::min(state.used, state.options.memory_bytes);
  out->used_here_bytes = state.used;
  return TN_OK;
}

int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t, tn_memory** out, tn_error* error) {
  const Lock lock(mutex);
  State& state = *device->plugin;
  ++state.calls.alloc;
  if (kind == TN_MEMORY_MANAGED && !state.options.managed)
    return fail(error, TN_UNSUPPORTED, "no managed memory");
  if (state.refusal != TN_OK) return fail(error, state.refusal, "memory refused by the test");
  if (state.used + bytes > state.options.memory_bytes)
    return fail(error, TN_NO_MEMORY, "fake memory is full: " + std::to_string(state.used) + " bytes used");
  auto memory = std::make_unique<tn_memory>();
  memory->plugin = &state;
  memory->kind = kind;
  memory->storage.resize(bytes + 4096);
  const auto start = reinterpret_cast<uintptr_t>(memory->storage.data());
  memory->data = memory->storage.data() + ((start + 4095) / 4096 * 4096 - start);
  state.used += bytes;
  ++state.live;
  memories.insert(memory.get());
  *out = memory.release();
  return TN_OK;
}

int32_t free_memory(tn_memory* memory, tn_error*) {
  const Lock lock(mutex);
  State& state = *memory->plugin;
  ++state.calls.free;
  --state.live;
  state.used -= memory->storage.size() - 4096;
  memories.erase(memory);
  delete memory;
  return TN_OK;
}

int32_t address(tn_memory* memory, uint64_t* out, tn_error* error) {
  if (memory->kind == TN_MEMORY_DEVICE && (memory->plugin->options.features & TN_FEATURE_ADDRESSABLE) == 0)
    return fail(error, TN_UNSUPPORTED, "not addressable");
  *out = reinterpret_cast<uintptr_t>(memory->data);
  return TN_OK;
}

int32_t peer(tn_device* a, tn_device*, uint32_t* direct, tn_error*) {
  *direct = a->plugin->options.peers ? 1 : 0;
  return TN_OK;
}

}  // namespace

tn_device_api device_table() {
  return {{sizeof(tn_device_api), 1, 0},
          count,
          info,
          open,
          close,
          limits,
          memory_info,
          alloc,
          free_memory,
          address,
          peer};
}

}  // namespace tenon::test::fake
