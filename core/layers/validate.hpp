// SPDX-License-Identifier: Apache-2.0
// validate.hpp: the layer that finds a caller's mistakes: wrong arguments, handles used after their end, leaks, and uses of
// the same bytes that no wait orders.
//
// Invariant: a call that would be undefined is refused with TN_INVALID and does not reach the plugin; a hazard or a leak is
// told and the call goes on. "tn.capture/1" is not offered under this layer: work inside a capture would go unseen.
#pragma once

#include "layers/findings.hpp"
#include "layers/interposer.hpp"
#include "layers/objects.hpp"
#include "layers/pool_notes.hpp"

#include <type_traits>
#include <unordered_map>

namespace tenon::layers {

class Check;
class ValidatedPlugin;

// Number of the call that this thread is in. [any-thread; does not block; cannot fail]
uint64_t current_call() noexcept;

// One thread in a call on a stream; a second one at the same time is a finding.
class StreamUse {
 public:
  StreamUse(StreamObject* stream, Findings& findings, const char* function);
  StreamUse(const StreamUse&) = delete;
  StreamUse& operator=(const StreamUse&) = delete;
  ~StreamUse() {
    if (mine_) stream_->user.store({}, std::memory_order_relaxed);
  }

 private:
  StreamObject* stream_;
  bool mine_ = false;
};

inline constexpr uint64_t host_region = 0;

// What all plugins of one layer share: streams of several plugins are ordered by the same host.
struct ValidateState {
  ValidateState(Log log, bool is_strict) : findings(std::move(log)), strict(is_strict) {}

  Findings findings;
  Hazards hazards;
  AddressMap<MemoryObject> host_addresses;
  bool strict;  // wrong arguments are refused, not only told
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> regions{host_region + 1};
  std::atomic<uint64_t> made[kind_count]{};
  std::vector<ValidatedPlugin*> plugins;  // entered while the host is set up

  // "memory #3 [0, 4096)", "host memory [0x10, 0x20)". [any-thread; does not block]
  std::string name_of(const Access& use) const;
  void name_region(uint64_t region, const std::string& name);
  void forget_region(uint64_t region);

 private:
  mutable std::mutex names_mutex_;
  std::unordered_map<uint64_t, std::string> names_;  // of memories that live
};

// Where a span lies.
struct Place {
  std::shared_ptr<MemoryObject> memory;  // null: an address of no memory we know
  uint64_t region = host_region;
  uint64_t begin = 0;
  uint64_t bytes = 0;
  bool pageable = false;  // host memory of the caller's own
};

// Adds the rows of `shape` at `place`; no shape is the whole place. [any-thread; does not block; cannot fail]
void add_uses(std::vector<Access>& uses, const Place& place, const std::optional<Footprint>& shape,
              bool write);

// Copies take any space; launches and the rest only what the device can reach.
enum class Purpose { copy, compute };

class ValidatedPlugin final : public Interposer {
 public:
  ValidatedPlugin(const tn_plugin& below, ValidateState& state);

  int32_t around(Function function, const void* subject, tn_error* error, const Call& call) override;

  int32_t device_open(P*, uint32_t ordinal, const tn_device_options* options, tn_device** device,
                      E* e) override;
  int32_t device_close(tn_device* device, E* e) override;
  int32_t device_limits(tn_device* device, tn_device_limits* limits, E* e) override;
  int32_t memory_info(tn_device* device, tn_memory_info* info, E* e) override;
  int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** memory,
                E* e) override;
  int32_t free(tn_memory* memory, E* e) override;
  int32_t address(tn_memory* memory, uint64_t* address, E* e) override;
  int32_t peer(tn_device* a, tn_device* b, uint32_t* direct, E* e) override;

  int32_t stream_create(tn_device* device, const tn_stream_options* options, tn_stream** stream,
                        E* e) override;
  int32_t stream_destroy(tn_stream* stream, uint32_t mode, E* e) override;
  int32_t copy(tn_stream* stream, const tn_span* dst, const tn_span* src, E* e) override;
  int32_t copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src, const tn_copy_shape* shape,
                       E* e) override;
  int32_t fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
               E* e) override;
  int32_t record(tn_stream* stream, uint32_t flags, uint64_t* value, E* e) override;
  int32_t wait(tn_stream* stream, tn_stream* other, uint64_t value, E* e) override;
  int32_t query(tn_stream* stream, uint64_t* completed, E* e) override;
  int32_t sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, E* e) override;
  int32_t timestamp(tn_stream* stream, uint64_t value, uint64_t* ns, E* e) override;
  int32_t host_call(tn_stream* stream, void (*call)(void*), void* argument, E* e) override;
  int32_t promise(tn_stream* stream, uint64_t* value, E* e) override;
  int32_t signal(tn_stream* stream, uint64_t value, int32_t code, E* e) override;

  int32_t supports(tn_device* device, const tn_fragment* fragment, tn_support* support, E* e) override;
  int32_t compile(tn_device* device, const tn_fragment* fragment, const tn_compile_options* options,
                  tn_kernel** kernel, E* e) override;
  int32_t kernel_info(tn_kernel* kernel, tn_kernel_info* info, E* e) override;
  int32_t launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t count,
                 const tn_span* workspace, E* e) override;
  int32_t kernel_destroy(tn_kernel* kernel, E* e) override;
  int32_t save(tn_kernel* kernel, void* data, uint64_t capacity, uint64_t* bytes, E* e) override;
  int32_t load(tn_device* device, const tn_fragment* fragment, const void* data, uint64_t bytes,
               tn_kernel** kernel, E* e) override;

  int32_t comm_create(tn_device* device, uint32_t rank, uint32_t size, const void* id, uint64_t id_bytes,
                      const tn_comm_options* options, tn_comm** comm, E* e) override;
  int32_t submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count, E* e) override;
  int32_t split(tn_comm* comm, int32_t color, int32_t key, const tn_comm_options* options, tn_comm** out,
                E* e) override;
  int32_t abort(tn_comm* comm, E* e) override;
  int32_t health(tn_comm* comm, E* e) override;
  int32_t comm_destroy(tn_comm* comm, uint64_t timeout_ns, E* e) override;

  int32_t import_stream(tn_device* device, uint64_t native, tn_stream** stream, E* e) override;
  int32_t import_memory(tn_device* device, uint64_t address, uint64_t bytes, tn_memory** memory,
                        E* e) override;
  int32_t ipc_open_memory(tn_device* device, const void* ticket, uint64_t bytes, tn_memory** memory,
                          E* e) override;
  const void* extension(const char* id) override;
  int32_t quiesce(P*, E* e) override;
  int32_t shutdown(P*, E* e) override;

  // Tells what still lives, as leaks at `when`. [any-thread; does not block]
  void tell_leaks(const std::string& when, const DeviceObject* of = nullptr);

 private:
  friend class Check;
  friend class ValidateLayer;

  template <class T>
  Book<T>& book() {
    if constexpr (std::is_same_v<T, DeviceObject>)
      return devices_;
    else if constexpr (std::is_same_v<T, MemoryObject>)
      return memories_;
    else if constexpr (std::is_same_v<T, StreamObject>)
      return streams_;
    else if constexpr (std::is_same_v<T, KernelObject>)
      return kernels_;
    else
      return comms_;
  }
  // A new object, not yet in its book. `detail` is "" or "4096 bytes, ".
  template <class T>
  std::shared_ptr<T> make(const char* given_name, const std::string& detail,
                          const std::shared_ptr<DeviceObject>& device);
  // The object of a handle that was made behind this layer's back.
  template <class T>
  std::shared_ptr<T> foreign(const void* handle);
  void begin(Object& object, const char* given_name, const std::string& detail);

  void place_memory(const std::shared_ptr<MemoryObject>& memory, tn_memory* handle);
  void unplace_memory(const std::shared_ptr<MemoryObject>& memory);
  void enter_kernel(const std::shared_ptr<DeviceObject>& device, const tn_fragment& fragment,
                    const tn_compile_options* options, tn_kernel* handle);
  void check_bindings(Check& check, const KernelObject& kernel, const tn_span* bindings, uint32_t count,
                      std::vector<Place>& places);
  void end_children(const DeviceObject& device);
  std::vector<std::shared_ptr<Object>> children(const DeviceObject* device) const;

  void check_value(Check& check, const StreamObject* stream, uint64_t value);
  void enter_borrowed(const std::shared_ptr<DeviceObject>& device, tn_memory* handle, uint64_t bytes);
  void launched(const KernelObject& kernel, const StreamObject& stream, const std::vector<Place>& places,
                const Place& scratch);
  void join(CommObject& comm, const StreamObject& stream);
  void leave(CommObject& comm, const StreamObject& stream);

  // Enters what was enqueued and tells the hazards.
  void enqueued(const StreamObject& stream, std::string what, std::span<const Access> uses);
  void tell(const Conflict& conflict, const Operation& now);
  // Looks at a code for the loss of the device.
  int32_t settle(const std::shared_ptr<DeviceObject>& device, int32_t code);

  static void note_acquired(void* context, tn_memory* memory, uint64_t offset, uint64_t bytes);
  static void note_released(void* context, tn_memory* memory, uint64_t offset, uint64_t bytes);

  ValidateState& state_;
  uint64_t device_region_;
  AddressMap<MemoryObject> device_addresses_;
  PoolNotes pool_notes_;
  Book<DeviceObject> devices_;
  Book<MemoryObject> memories_;
  Book<StreamObject> streams_;
  Book<KernelObject> kernels_;
  Book<CommObject> comms_;
};

template <class T>
std::shared_ptr<T> ValidatedPlugin::make(const char* given_name, const std::string& detail,
                                         const std::shared_ptr<DeviceObject>& device) {
  auto object = std::make_shared<T>();
  object->kind = T::kind_of;
  object->device = device;
  begin(*object, given_name, detail);
  if constexpr (std::is_same_v<T, MemoryObject>) {
    object->region = state_.regions.fetch_add(1);
    state_.name_region(object->region, object->name);
  }
  if constexpr (std::is_same_v<T, StreamObject>) object->slot = state_.hazards.add_stream();
  return object;
}

template <class T>
std::shared_ptr<T> ValidatedPlugin::foreign(const void* handle) {
  return book<T>().find_or_enter(handle, [&] {
    auto object = make<T>(nullptr, "", nullptr);
    object->foreign = true;
    object->story = "made by an extension, first seen in call #" + std::to_string(object->made_at);
    return object;
  });
}

// "validate", with "" or "report" after the "=". [any-thread; does not block; may fail]
Result<std::unique_ptr<Layer>> make_validate(std::string_view argument, Log log);

}  // namespace tenon::layers
