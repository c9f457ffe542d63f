// SPDX-License-Identifier: Apache-2.0
// check.cpp: handles and spans under examination.
#include "layers/check.hpp"

#include "base/extent.hpp"
#include "layers/text.hpp"

namespace tenon::layers {

std::string Check::told(int32_t level, const std::string& topic, const std::string& why) {
  const std::string name = function_name(function_);
  std::string text = name + " #" + std::to_string(current_call()) + ": " + why;
  plugin_.state_.findings.add(level, name + "|" + topic, text);
  return text;
}

void Check::warn(const std::string& topic, const std::string& why) { told(TN_LOG_WARN, topic, why); }

void Check::enter(const std::string& topic, const std::string& why, bool undefined) {
  std::string text = told(TN_LOG_ERROR, topic, why);
  if (!failed_) first_ = std::move(text);
  failed_ = true;
  undefined_ |= undefined;
}

bool Check::refused() const noexcept { return undefined_ || (failed_ && plugin_.state_.strict); }

int32_t Check::refusal() const {
  return write_error(Error{.code = TN_INVALID, .message = first_, .domain = "validate"}, error_);
}

template <class T>
std::shared_ptr<T> Check::handle(const void* handle, const char* role) {
  if (handle == nullptr) {
    forbid(std::string("null|") + role,
           std::string(role) + " is NULL: give the handle of a " + kind_name(T::kind_of));
    return nullptr;
  }
  if (auto live = plugin_.book<T>().live(handle)) return live;
  if (const auto ended = plugin_.book<T>().ended(handle)) {
    const bool again = function_ == Function::free || function_ == Function::stream_destroy ||
                       function_ == Function::kernel_destroy || function_ == Function::comm_destroy ||
                       function_ == Function::device_close;
    forbid("ended|" + ended->name, std::string(again ? "ends a second time" : "use after the end") + ": " +
                                       role + " is " + describe(*ended));
    return nullptr;
  }
  for (ValidatedPlugin* other : plugin_.state_.plugins) {
    if (const auto theirs = other == &plugin_ ? nullptr : other->book<T>().live(handle)) {
      forbid("plugin|" + theirs->name, std::string(role) + " is " + describe(*theirs) + " of plugin '" +
                                           other->below().name + "', given to plugin '" +
                                           plugin_.below().name + "'");
      return nullptr;
    }
  }
  return plugin_.foreign<T>(handle);
}

std::shared_ptr<DeviceObject> Check::device(const tn_device* given, const char* role) {
  return handle<DeviceObject>(given, role);
}
std::shared_ptr<MemoryObject> Check::memory(const tn_memory* given, const char* role) {
  return handle<MemoryObject>(given, role);
}
std::shared_ptr<StreamObject> Check::stream(const tn_stream* given, const char* role) {
  return handle<StreamObject>(given, role);
}
std::shared_ptr<KernelObject> Check::kernel(const tn_kernel* given) {
  return handle<KernelObject>(given, "kernel");
}
std::shared_ptr<CommObject> Check::comm(const tn_comm* given) {
  return handle<CommObject>(given, "communicator");
}

bool Check::pointer(const void* pointer, const char* role) {
  if (pointer == nullptr) forbid(std::string("null|") + role, std::string(role) + " is NULL");
  return pointer != nullptr;
}

void Check::same_device(const Object& object, const Object& other) {
  if (!object.device || !other.device || object.device == other.device) return;
  fail("device|" + object.name + "|" + other.name,
       describe(object) + " and " + describe(other) + " belong to different devices");
}

Place Check::span(const tn_span* span, const std::string& role, Purpose purpose) {
  if (span == nullptr) {
    forbid("null|" + role, role + " is NULL: give a span, of no bytes where nothing is meant");
    return {};
  }
  if (span->bytes == 0) return {};
  if (span->reserved != 0)
    fail("reserved|" + role, role + ".reserved is not zero: clear the span before it is filled");
  if (span->offset > UINT64_MAX - span->bytes) {
    forbid("wraps|" + role, role + " wraps around: offset " + std::to_string(span->offset) + " + " +
                                std::to_string(span->bytes) + " bytes");
    return {};
  }
  const bool reaches_host = (plugin_.below().features & TN_FEATURE_HOST_MEMORY) != 0;
  if (span->space == TN_SPACE_HOST_ADDRESS && purpose == Purpose::compute && !reaches_host) {
    fail("host|" + role, role + " is a host address, which only copies take: copy it to device memory first");
  }
  Place place = place_of(*span, role);
  inside(place, role);
  return place;
}

Place Check::place_of(const tn_span& span, const std::string& role) {
  Place place{.memory = nullptr, .region = host_region, .begin = span.offset, .bytes = span.bytes};
  const bool shared = (plugin_.below().features & TN_FEATURE_HOST_MEMORY) != 0;
  switch (span.space) {
    case TN_SPACE_MEMORY:
      place.memory = memory(span.memory, role.c_str());
      if (place.memory) place.region = place.memory->region;
      return place;
    case TN_SPACE_DEVICE_ADDRESS:
      if ((plugin_.below().features & TN_FEATURE_ADDRESSABLE) == 0) {
        fail("space|" + role, role + " is a device address, and plugin '" + plugin_.below().name +
                                  "' lacks the feature ADDRESSABLE: name a memory and an offset");
      }
      place.region = shared ? host_region : plugin_.device_region_;
      place.memory = shared ? plugin_.state_.host_addresses.find(span.offset).first
                            : plugin_.device_addresses_.find(span.offset).first;
      break;
    case TN_SPACE_HOST_ADDRESS:
      place.memory = plugin_.state_.host_addresses.find(span.offset).first;
      place.pageable = !place.memory;
      break;
    default:
      forbid("space|" + role, role + ".space is " + std::to_string(span.space) + ": no such space");
      return place;
  }
  if (span.offset == 0)
    forbid("null|" + role, role + " has the address 0 and " + std::to_string(span.bytes) + " bytes");
  if (place.memory) {
    place.region = place.memory->region;
    place.begin -= *place.memory->address;
  }
  return place;
}

void Check::inside(const Place& place, const std::string& role) {
  if (!place.memory) return;
  MemoryObject& memory = *place.memory;
  const uint64_t end = place.begin + place.bytes;
  if (end > memory.bytes) {
    forbid("bounds|" + role + "|" + memory.name,
           role + " " + range_text(place.begin, end) + " goes past the end of " + describe(memory));
    return;
  }
  const std::lock_guard lock(memory.parts_mutex);
  auto part = memory.given_back.upper_bound(place.begin);
  if (part != memory.given_back.begin() && std::prev(part)->second.end > place.begin) --part;
  if (part == memory.given_back.end() || part->first >= end) return;
  forbid("part|" + role + "|" + memory.name,
         "use after free: " + role + " " + range_text(place.begin, end) + " of " + memory.name +
             " names bytes of " + range_text(part->first, part->second.end) +
             ", which went back to the pool after call #" + std::to_string(part->second.call));
}

bool Check::tensor(const tn_tensor& tensor, uint32_t index) {
  const std::string what = "tensor " + std::to_string(index);
  if (tensor.rank > TN_MAX_RANK || (tensor.rank > 0 && tensor.dims == nullptr)) {
    forbid("tensor", what + " has rank " + std::to_string(tensor.rank) + ": at most " +
                         std::to_string(TN_MAX_RANK) + ", with dims");
    return false;
  }
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.dims[i] >= 0 && (tensor.strides == nullptr || tensor.strides[i] >= 0)) continue;
    forbid("tensor", what + " has a negative dim or stride at " + std::to_string(i));
    return false;
  }
  if (!base::extent_of(tensor).too_large) return true;
  forbid("tensor", what + " has more bytes than a span can count");
  return false;
}

bool Check::node(const tn_fragment& fragment, uint32_t index) {
  const tn_node& node = fragment.nodes[index];
  const auto valid = [&](const uint32_t* values, uint32_t count) {
    if (count != 0 && values == nullptr) return false;
    for (uint32_t i = 0; i < count; ++i) {
      if (values[i] >= fragment.tensor_count && values[i] != TN_ABSENT) return false;
    }
    return true;
  };
  if (valid(node.inputs, node.input_count) && valid(node.outputs, node.output_count)) return true;
  forbid("node", "node " + std::to_string(index) + " names a tensor that is not among the fragment's " +
                     std::to_string(fragment.tensor_count));
  return false;
}

bool Check::fragment(const tn_fragment* fragment) {
  if (!pointer(fragment, "fragment")) return false;
  const tn_fragment& f = *fragment;
  if ((f.tensor_count != 0 && f.tensors == nullptr) || (f.node_count != 0 && f.nodes == nullptr) ||
      (f.input_count != 0 && f.inputs == nullptr) || (f.output_count != 0 && f.outputs == nullptr) ||
      (f.alias_count != 0 && f.aliases == nullptr)) {
    forbid("fragment", "the fragment counts elements of an array that is NULL");
    return false;
  }
  for (uint32_t i = 0; i < f.tensor_count; ++i) {
    if (!tensor(f.tensors[i], i)) return false;
  }
  for (uint32_t i = 0; i < f.node_count; ++i) {
    if (!node(f, i)) return false;
  }
  bool inside = true;
  for (uint32_t i = 0; i < f.input_count; ++i) inside &= f.inputs[i] < f.tensor_count;
  for (uint32_t i = 0; i < f.output_count; ++i) inside &= f.outputs[i] < f.tensor_count;
  for (uint32_t i = 0; i < f.alias_count; ++i) {
    inside &= f.aliases[i].input < f.input_count && f.aliases[i].output < f.output_count;
  }
  if (!inside) forbid("fragment", "an input, output or alias of the fragment is not among its tensors");
  return inside;
}

}  // namespace tenon::layers
