// SPDX-License-Identifier: Apache-2.0
// validate_device.cpp: devices and memory under validation.
//
// Invariant: an object ends in its book before the plugin ends it, since the plugin may give its handle out again at once.
#include "layers/check.hpp"
#include "layers/text.hpp"
#include "layers/validate.hpp"

#include <bit>

namespace tenon::layers {

int32_t ValidatedPlugin::device_open(P* p, uint32_t ordinal, const tn_device_options* options,
                                     tn_device** device, E* e) {
  Check check(*this, Function::device_open, e);
  check.pointer(device, "device");
  if (check.refused()) return check.refusal();
  const int32_t code = Interposer::device_open(p, ordinal, options, device, e);
  if (code != TN_OK) return code;
  const std::string name = std::string(below_.name) + ":" + std::to_string(ordinal);
  devices_.enter(*device, make<DeviceObject>(name.c_str(), "", nullptr));
  return code;
}

int32_t ValidatedPlugin::device_close(tn_device* device, E* e) {
  Check check(*this, Function::device_close, e);
  const auto object = check.device(device);
  if (check.refused()) return check.refusal();
  tell_leaks("when " + object->name + " is closed in call #" + std::to_string(current_call()), object.get());
  devices_.end(device, current_call());
  const int32_t code = Interposer::device_close(device, e);
  code == TN_OK ? end_children(*object) : devices_.revive(device, object);
  return code;
}

void ValidatedPlugin::end_children(const DeviceObject& device) {
  const auto end = [&](auto& book, const auto& then) {
    for (const auto& [handle, object] : book.all()) {
      if (object->device.get() != &device) continue;
      book.end(handle, current_call());
      then(*object, object);
    }
  };
  const auto nothing = [](const auto&, const auto&) {};
  end(kernels_, nothing);
  end(comms_, nothing);
  end(streams_, [&](const StreamObject& stream, const auto&) { state_.hazards.remove_stream(stream.slot); });
  end(memories_, [&](const MemoryObject& memory, const auto& shared) {
    unplace_memory(shared);
    state_.forget_region(memory.region);
  });
}

int32_t ValidatedPlugin::device_limits(tn_device* device, tn_device_limits* limits, E* e) {
  Check check(*this, Function::device_limits, e);
  const auto object = check.device(device);
  check.pointer(limits, "limits");
  if (check.refused()) return check.refusal();
  return settle(object, Interposer::device_limits(device, limits, e));
}

int32_t ValidatedPlugin::memory_info(tn_device* device, tn_memory_info* info, E* e) {
  Check check(*this, Function::memory_info, e);
  const auto object = check.device(device);
  check.pointer(info, "info");
  if (check.refused()) return check.refusal();
  return settle(object, Interposer::memory_info(device, info, e));
}

int32_t ValidatedPlugin::alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                               tn_memory** memory, E* e) {
  Check check(*this, Function::alloc, e);
  const auto on = check.device(device);
  check.pointer(memory, "memory");
  if (alignment != 0 && !std::has_single_bit(alignment)) {
    check.fail("alignment",
               "alignment " + std::to_string(alignment) + " is no power of two: round it up, or give 0");
  }
  if (kind > TN_MEMORY_MANAGED) check.fail("kind", "kind " + std::to_string(kind) + " is no kind of memory");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(on, Interposer::alloc(device, kind, bytes, alignment, memory, e));
  if (code != TN_OK) return code;
  const auto object = make<MemoryObject>(nullptr, std::to_string(bytes) + " bytes, ", on);
  object->bytes = bytes;
  object->memory_kind = kind;
  object->alignment = std::max<uint64_t>(alignment, TN_MEMORY_ALIGNMENT);
  place_memory(object, *memory);
  memories_.enter(*memory, object);
  return code;
}

void ValidatedPlugin::place_memory(const std::shared_ptr<MemoryObject>& memory, tn_memory* handle) {
  uint64_t address = 0;
  tn_error ignored = no_error();
  if (memory->bytes == 0 || memory->bytes == UINT64_MAX || below_.device->address == nullptr) return;
  if (!memory->address) {
    const OwnCall own;
    if (Interposer::address(handle, &address, &ignored) != TN_OK || address == 0) return;
    memory->address = address;
  }
  const bool device_side = memory->memory_kind != TN_MEMORY_HOST;
  const bool host_side =
      memory->memory_kind != TN_MEMORY_DEVICE || (below_.features & TN_FEATURE_HOST_MEMORY) != 0;
  if (device_side) device_addresses_.insert(*memory->address, memory);
  if (host_side) state_.host_addresses.insert(*memory->address, memory);
}

void ValidatedPlugin::unplace_memory(const std::shared_ptr<MemoryObject>& memory) {
  if (!memory->address) return;
  device_addresses_.erase(*memory->address, memory);
  state_.host_addresses.erase(*memory->address, memory);
}

int32_t ValidatedPlugin::free(tn_memory* memory, E* e) {
  Check check(*this, Function::free, e);
  const auto object = check.memory(memory);
  if (object && !object->foreign && !(object->device && object->device->lost)) {
    if (const OperationRef user = state_.hazards.in_flight(object->region)) {
      const std::string why = describe(*object) + " is freed while " + user->name + " #" +
                              std::to_string(user->call) + " on " + user->stream +
                              " may still use it: sync or query a value recorded after it";
      const bool runs_at_once = (below_.features & TN_FEATURE_SYNCHRONOUS) != 0;
      runs_at_once ? check.warn("in flight", why) : check.forbid("in flight", why);
    }
  }
  if (check.refused()) return check.refusal();
  memories_.end(memory, current_call());
  unplace_memory(object);
  const int32_t code = Interposer::free(memory, e);
  if (code == TN_OK || code == TN_DEVICE_LOST) {
    state_.forget_region(object->region);
  } else {
    place_memory(object, memory);
    memories_.revive(memory, object);
  }
  return settle(object->device, code);
}

int32_t ValidatedPlugin::address(tn_memory* memory, uint64_t* address, E* e) {
  Check check(*this, Function::address, e);
  const auto object = check.memory(memory);
  check.pointer(address, "address");
  if (check.refused()) return check.refusal();
  return settle(object->device, Interposer::address(memory, address, e));
}

int32_t ValidatedPlugin::peer(tn_device* a, tn_device* b, uint32_t* direct, E* e) {
  Check check(*this, Function::peer, e);
  check.device(a, "device a");
  check.device(b, "device b");
  check.pointer(direct, "direct");
  if (check.refused()) return check.refusal();
  return Interposer::peer(a, b, direct, e);
}

int32_t ValidatedPlugin::import_memory(tn_device* device, uint64_t address, uint64_t bytes,
                                       tn_memory** memory, E* e) {
  Check check(*this, Function::import_memory, e);
  const auto on = check.device(device);
  check.pointer(memory, "memory");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(on, Interposer::import_memory(device, address, bytes, memory, e));
  if (code == TN_OK) enter_borrowed(on, *memory, bytes);
  return code;
}

int32_t ValidatedPlugin::ipc_open_memory(tn_device* device, const void* ticket, uint64_t bytes,
                                         tn_memory** memory, E* e) {
  Check check(*this, Function::ipc_open_memory, e);
  const auto on = check.device(device);
  check.pointer(ticket, "ticket");
  check.pointer(memory, "memory");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(on, Interposer::ipc_open_memory(device, ticket, bytes, memory, e));
  if (code == TN_OK) enter_borrowed(on, *memory, UINT64_MAX);
  return code;
}

void ValidatedPlugin::enter_borrowed(const std::shared_ptr<DeviceObject>& device, tn_memory* handle,
                                     uint64_t bytes) {
  const auto object = make<MemoryObject>(nullptr, "borrowed, ", device);
  object->bytes = bytes;
  object->foreign = true;
  memories_.enter(handle, object);
}

void ValidatedPlugin::note_acquired(void* context, tn_memory* memory, uint64_t offset, uint64_t bytes) {
  const auto object = static_cast<ValidatedPlugin*>(context)->memories_.live(memory);
  if (!object || bytes == 0) return;
  const std::lock_guard lock(object->parts_mutex);
  auto& parts = object->given_back;
  const uint64_t end = offset + bytes;
  auto part = parts.upper_bound(offset);
  if (part != parts.begin() && std::prev(part)->second.end > offset) --part;
  while (part != parts.end() && part->first < end) {
    const uint64_t begin = part->first;
    const MemoryObject::Part old = part->second;
    part = parts.erase(part);
    if (begin < offset) parts[begin] = {offset, old.call};
    if (old.end > end) part = parts.insert_or_assign(end, old).first;
  }
}

void ValidatedPlugin::note_released(void* context, tn_memory* memory, uint64_t offset, uint64_t bytes) {
  note_acquired(context, memory, offset, bytes);  // what it overlaps is replaced
  auto* self = static_cast<ValidatedPlugin*>(context);
  const auto object = self->memories_.live(memory);
  if (!object || bytes == 0) return;
  const std::lock_guard lock(object->parts_mutex);
  object->given_back[offset] = {offset + bytes, self->state_.calls.load(std::memory_order_relaxed)};
}

}  // namespace tenon::layers
