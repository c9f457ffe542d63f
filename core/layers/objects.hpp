// SPDX-License-Identifier: Apache-2.0
// objects.hpp: what the validate layer knows of each handle: what it is, who made it when, and when it ended.
//
// Invariant: an ended object stays known (the newest `max_ended` of each kind) until its handle is given out again, so a
// late use is told with the object's whole story.
#pragma once

#include "layers/address_map.hpp"
#include "layers/footprint.hpp"
#include "layers/handle_table.hpp"
#include "layers/hazards.hpp"

#include <tenon/abi.h>

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenon::layers {

inline constexpr size_t max_ended = 4096;

enum class Kind { device, memory, stream, kernel, comm };
constexpr const char* kind_name(Kind kind) noexcept {
  constexpr const char* names[] = {"device", "memory", "stream", "kernel", "communicator"};
  return names[static_cast<size_t>(kind)];
}
inline constexpr size_t kind_count = 5;

struct DeviceObject;

struct Object {
  Kind kind{};
  std::string name;      // "memory #3", "stream 'a'"
  std::string story;     // "4096 bytes, made by call #7"
  uint64_t made_at = 0;  // call number
  bool foreign = false;  // made behind this layer's back (an extension): sizes and values are unknown
  std::shared_ptr<DeviceObject> device;  // null for a device and for foreign handles
  std::atomic<uint64_t> ended_at{0};     // call number
  std::atomic<bool> leak_told{false};
};

struct DeviceObject : Object {
  static constexpr Kind kind_of = Kind::device;
  std::atomic<bool> lost{false};
};

struct MemoryObject : Object {
  static constexpr Kind kind_of = Kind::memory;
  uint64_t bytes = UINT64_MAX;
  uint64_t alignment = 1;
  uint64_t region = 0;
  uint32_t memory_kind = 0;
  std::optional<uint64_t> address;
  std::mutex parts_mutex;
  struct Part {
    uint64_t end = 0, call = 0;
  };
  std::map<uint64_t, Part> given_back;  // by begin; disjoint
};

// A host call on its way: when it runs, all before it is over.
struct HostCallNote {
  Hazards* hazards = nullptr;
  Hazards::Moment moment{};
  void (*call)(void*) = nullptr;
  void* argument = nullptr;
  std::atomic<bool> done{false};
};

struct StreamObject : Object {
  static constexpr Kind kind_of = Kind::stream;
  Hazards::Slot slot = 0;
  std::atomic<std::thread::id> user{};  // the thread that is in a call on it
  std::list<HostCallNote> host_calls;   // enqueued; the stream's thread drops those that ran
};

struct BindingNote {
  std::optional<Footprint> shape;  // empty: the whole span
  uint64_t bytes = 0;              // the least a span must hold
  uint64_t alignment = 1;
};

struct CommObject : Object {
  static constexpr Kind kind_of = Kind::comm;
  int64_t rank = -1;  // -1: unknown
  std::mutex mutex;
  std::optional<Hazards::Moment> last;  // submits of one communicator run in order
};

struct KernelObject : Object {
  static constexpr Kind kind_of = Kind::kernel;
  std::vector<BindingNote> bindings;  // inputs, then outputs
  uint32_t input_count = 0;
  std::vector<tn_alias> aliases;
  uint64_t workspace_bytes = 0;
  std::vector<std::shared_ptr<CommObject>> comms;
  std::string label;  // the fragment's name, or ops
};

// Live and ended objects of one kind.
template <class T>
class Book {
 public:
  void enter(const void* handle, std::shared_ptr<T> object) {
    ended_.erase(handle);
    live_.insert(handle, std::move(object));
  }
  std::shared_ptr<T> live(const void* handle) const { return live_.find(handle); }
  std::shared_ptr<T> ended(const void* handle) const { return ended_.find(handle); }
  template <class Make>
  std::shared_ptr<T> find_or_enter(const void* handle, const Make& make) {
    return live_.find_or_insert(handle, make);
  }
  // Ends it before the plugin does, so that a handle given out again at once is a new object.
  std::shared_ptr<T> end(const void* handle, uint64_t call) {
    auto object = live_.erase(handle);
    if (!object) return nullptr;
    object->ended_at = call;
    ended_.insert(handle, object);
    const std::lock_guard lock(mutex_);
    order_.emplace_back(handle, object);
    if (order_.size() > max_ended) {
      const auto [old, was] = std::move(order_.front());
      order_.pop_front();
      if (ended_.find(old) == was) ended_.erase(old);
    }
    return object;
  }
  // It did not end after all.
  void revive(const void* handle, const std::shared_ptr<T>& object) {
    object->ended_at = 0;
    enter(handle, object);
  }
  auto all() const { return live_.all(); }

 private:
  HandleTable<T> live_, ended_;
  std::mutex mutex_;
  std::deque<std::pair<const void*, std::shared_ptr<T>>> order_;
};

// "memory #3 (4096 bytes, made by call #7 on device 'cpu:0')", and by which call it ended.
// [any-thread; does not block]
std::string describe(const Object& object);

}  // namespace tenon::layers
