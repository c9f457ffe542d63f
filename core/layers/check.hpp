// SPDX-License-Identifier: Apache-2.0
// check.hpp: one call under examination by the validate layer.
//
// Invariant: the first fault found is the one the caller is told; each is a finding. `forbid` is for what would be
// undefined below, `fail` for what a plugin must refuse by itself.
#pragma once

#include "layers/validate.hpp"

namespace tenon::layers {

class Check {
 public:
  Check(ValidatedPlugin& plugin, Function function, tn_error* error) noexcept
      : plugin_(plugin), function_(function), error_(error) {}

  // The objects behind handles; null after a fault.
  std::shared_ptr<DeviceObject> device(const tn_device* handle, const char* role = "device");
  std::shared_ptr<MemoryObject> memory(const tn_memory* handle, const char* role = "memory");
  std::shared_ptr<StreamObject> stream(const tn_stream* handle, const char* role = "stream");
  std::shared_ptr<KernelObject> kernel(const tn_kernel* handle);
  std::shared_ptr<CommObject> comm(const tn_comm* handle);
  // A pointer that the plugin will read or write.
  bool pointer(const void* pointer, const char* role);
  // A span, inside its memory and reachable for `purpose`.
  Place span(const tn_span* span, const std::string& role, Purpose purpose);
  // Indexes, ranks, dims and arrays of a fragment.
  bool fragment(const tn_fragment* fragment);
  // Both objects belong to one device.
  void same_device(const Object& object, const Object& other);

  void fail(const std::string& topic, const std::string& why) { enter(topic, why, false); }
  void forbid(const std::string& topic, const std::string& why) { enter(topic, why, true); }
  // A finding that refuses nothing.
  void warn(const std::string& topic, const std::string& why);
  bool failed() const noexcept { return failed_; }
  // Whether the call must not go on.
  bool refused() const noexcept;
  // Tells the caller; only after refused().
  int32_t refusal() const;

 private:
  template <class T>
  std::shared_ptr<T> handle(const void* handle, const char* role);
  void enter(const std::string& topic, const std::string& why, bool undefined);
  std::string told(int32_t level, const std::string& topic, const std::string& why);
  Place place_of(const tn_span& span, const std::string& role);
  void inside(const Place& place, const std::string& role);
  bool tensor(const tn_tensor& tensor, uint32_t index);
  bool node(const tn_fragment& fragment, uint32_t index);

  ValidatedPlugin& plugin_;
  Function function_;
  tn_error* error_;
  bool failed_ = false, undefined_ = false;
  std::string first_;
};

}  // namespace tenon::layers
