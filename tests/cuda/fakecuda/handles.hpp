// SPDX-License-Identifier: Apache-2.0
// handles.hpp: handles that are numbers, so that a stale or foreign one is told from a live one without touching it.
//
// Invariant: a handle is never given out twice, and each kind of object has numbers of its own.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>

namespace fakecuda {

// Ends a call with this code.
struct Refused {
  CUresult code;
};
inline void require(bool holds, CUresult code) {
  if (!holds) throw Refused{code};
}

template <class Handle, class Object>
class Handles {
 public:
  explicit Handles(uint64_t kind) : next_(kind << 40 | 0x1000) {}

  Handle add(std::shared_ptr<Object> object) {
    const uint64_t number = next_ += 16;
    objects_.emplace(number, std::move(object));
    return to_handle(number);
  }
  // The object; refuses the call when there is none of this handle.
  std::shared_ptr<Object> get(Handle handle) const {
    const auto found = objects_.find(to_number(handle));
    require(found != objects_.end(), CUDA_ERROR_INVALID_HANDLE);
    return found->second;
  }
  bool knows(Handle handle) const { return objects_.contains(to_number(handle)); }
  void remove(Handle handle) { objects_.erase(to_number(handle)); }
  template <class Condition>
  size_t remove_if(Condition&& condition) {
    return std::erase_if(objects_, [&](const auto& entry) { return condition(*entry.second); });
  }
  const std::map<uint64_t, std::shared_ptr<Object>>& all() const { return objects_; }

 private:
  static Handle to_handle(uint64_t number) { return reinterpret_cast<Handle>(number); }
  static uint64_t to_number(Handle handle) { return reinterpret_cast<uint64_t>(handle); }

  std::map<uint64_t, std::shared_ptr<Object>> objects_;
  uint64_t next_;
};

}  // namespace fakecuda
