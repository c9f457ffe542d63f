// SPDX-License-Identifier: Apache-2.0
// interposer.hpp: one plugin as one layer shows it. Every function of the ABI is a virtual method whose default passes the
// call on, so a layer writes only what it does differently.
//
// Invariant: handles pass through unchanged. A table's functions have no user data, so each interposer owns a slot, and
// the functions of that slot's tables know their interposer without looking a handle up: also for handles that an
// extension made. Exceptions end here: std::bad_alloc is TN_NO_MEMORY, any other TN_INTERNAL.
#pragma once

#include "layers/functions.hpp"
#include "layers/layer.hpp"

#include <tenon/abi.h>

#include <memory>
#include <mutex>
#include <vector>

namespace tenon::layers {

// Layered plugins at one time in one process; the tables are made at compile time.
inline constexpr size_t max_interposers = 32;

// A call on its way, ready to go on.
class Call {
 public:
  template <class Body>
  explicit Call(Body& body) noexcept
      : context_(&body), run_([](void* context) { return (*static_cast<Body*>(context))(); }) {}
  int32_t operator()() const { return run_(context_); }

 private:
  void* context_;
  int32_t (*run_)(void*);
};

// While one lives, its thread asks for a layer, not for the program: layers below neither count the call nor draw
// conclusions from it.
class OwnCall {
 public:
  OwnCall() noexcept { ++depth_; }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;
  ~OwnCall() { --depth_; }
  static bool here() noexcept { return depth_ != 0; }

 private:
  static inline thread_local int depth_ = 0;
};

class Interposer {
 public:
  explicit Interposer(const tn_plugin& below) noexcept : below_(below) {}
  virtual ~Interposer();
  Interposer(const Interposer&) = delete;
  Interposer& operator=(const Interposer&) = delete;

  // Takes a slot and fills the tables; false when all slots are taken. [one thread; does not block]
  bool bind() noexcept;
  const tn_plugin& descriptor() const noexcept { return descriptor_; }
  const tn_plugin& below() const noexcept { return below_; }

  // Around every call below: the call goes on when `call` is run. `subject` is the first argument, `error` the last.
  virtual int32_t around(Function /*function*/, const void* /*subject*/, tn_error* /*error*/,
                         const Call& call) {
    return call();
  }

  using P = const tn_plugin;
  using E = tn_error;
  virtual int32_t device_count(P*, uint32_t* count, E* e) { return below_.device->count(&below_, count, e); }
  virtual int32_t device_info(P*, uint32_t ordinal, tn_device_info* info, E* e) {
    return below_.device->info(&below_, ordinal, info, e);
  }
  virtual int32_t device_open(P*, uint32_t ordinal, const tn_device_options* options, tn_device** device,
                              E* e) {
    return below_.device->open(&below_, ordinal, options, device, e);
  }
  virtual int32_t device_close(tn_device* device, E* e) { return below_.device->close(device, e); }
  virtual int32_t device_limits(tn_device* device, tn_device_limits* limits, E* e) {
    return below_.device->limits(device, limits, e);
  }
  virtual int32_t memory_info(tn_device* device, tn_memory_info* info, E* e) {
    return below_.device->memory_info(device, info, e);
  }
  virtual int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                        tn_memory** memory, E* e) {
    return below_.device->alloc(device, kind, bytes, alignment, memory, e);
  }
  virtual int32_t free(tn_memory* memory, E* e) { return below_.device->free(memory, e); }
  virtual int32_t address(tn_memory* memory, uint64_t* address, E* e) {
    return below_.device->address(memory, address, e);
  }
  virtual int32_t peer(tn_device* a, tn_device* b, uint32_t* direct, E* e) {
    return below_.device->peer(a, b, direct, e);
  }

  virtual int32_t stream_create(tn_device* device, const tn_stream_options* options, tn_stream** stream,
                                E* e) {
    return below_.stream->create(device, options, stream, e);
  }
  virtual int32_t stream_destroy(tn_stream* stream, uint32_t mode, E* e) {
    return below_.stream->destroy(stream, mode, e);
  }
  virtual int32_t copy(tn_stream* stream, const tn_span* dst, const tn_span* src, E* e) {
    return below_.stream->copy(stream, dst, src, e);
  }
  virtual int32_t copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src,
                               const tn_copy_shape* shape, E* e) {
    return below_.stream->copy_strided(stream, dst, src, shape, e);
  }
  virtual int32_t fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
                       E* e) {
    return below_.stream->fill(stream, dst, pattern, pattern_bytes, e);
  }
  virtual int32_t record(tn_stream* stream, uint32_t flags, uint64_t* value, E* e) {
    return below_.stream->record(stream, flags, value, e);
  }
  virtual int32_t wait(tn_stream* stream, tn_stream* other, uint64_t value, E* e) {
    return below_.stream->wait(stream, other, value, e);
  }
  virtual int32_t query(tn_stream* stream, uint64_t* completed, E* e) {
    return below_.stream->query(stream, completed, e);
  }
  virtual int32_t sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, E* e) {
    return below_.stream->sync(stream, value, timeout_ns, e);
  }
  virtual int32_t timestamp(tn_stream* stream, uint64_t value, uint64_t* ns, E* e) {
    return below_.stream->timestamp(stream, value, ns, e);
  }
  virtual int32_t host_call(tn_stream* stream, void (*call)(void*), void* argument, E* e) {
    return below_.stream->host_call(stream, call, argument, e);
  }
  virtual int32_t promise(tn_stream* stream, uint64_t* value, E* e) {
    return below_.stream->promise(stream, value, e);
  }
  virtual int32_t signal(tn_stream* stream, uint64_t value, int32_t code, E* e) {
    return below_.stream->signal(stream, value, code, e);
  }

  virtual int32_t supports(tn_device* device, const tn_fragment* fragment, tn_support* support, E* e) {
    return below_.kernel->supports(device, fragment, support, e);
  }
  virtual int32_t patterns(tn_device* device, tn_pattern_list* list, E* e) {
    return below_.kernel->patterns(device, list, e);
  }
  virtual int32_t layouts(tn_device* device, tn_string_list* names, E* e) {
    return below_.kernel->layouts(device, names, e);
  }
  virtual int32_t layout_bytes(tn_device* device, const tn_tensor* tensor, uint64_t* bytes, E* e) {
    return below_.kernel->layout_bytes(device, tensor, bytes, e);
  }
  virtual int32_t compile(tn_device* device, const tn_fragment* fragment, const tn_compile_options* options,
                          tn_kernel** kernel, E* e) {
    return below_.kernel->compile(device, fragment, options, kernel, e);
  }
  virtual int32_t kernel_info(tn_kernel* kernel, tn_kernel_info* info, E* e) {
    return below_.kernel->info(kernel, info, e);
  }
  virtual int32_t launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t count,
                         const tn_span* workspace, E* e) {
    return below_.kernel->launch(kernel, stream, bindings, count, workspace, e);
  }
  virtual int32_t kernel_destroy(tn_kernel* kernel, E* e) { return below_.kernel->destroy(kernel, e); }
  virtual int32_t save(tn_kernel* kernel, void* data, uint64_t capacity, uint64_t* bytes, E* e) {
    return below_.kernel->save(kernel, data, capacity, bytes, e);
  }
  virtual int32_t load(tn_device* device, const tn_fragment* fragment, const void* data, uint64_t bytes,
                       tn_kernel** kernel, E* e) {
    return below_.kernel->load(device, fragment, data, bytes, kernel, e);
  }

  virtual int32_t comm_id_bytes(tn_device* device, uint64_t* bytes, E* e) {
    return below_.comm->id_bytes(device, bytes, e);
  }
  virtual int32_t comm_make_id(tn_device* device, void* id, uint64_t bytes, E* e) {
    return below_.comm->make_id(device, id, bytes, e);
  }
  virtual int32_t comm_create(tn_device* device, uint32_t rank, uint32_t size, const void* id,
                              uint64_t id_bytes, const tn_comm_options* options, tn_comm** comm, E* e) {
    return below_.comm->create(device, rank, size, id, id_bytes, options, comm, e);
  }
  virtual int32_t comm_limits(tn_comm* comm, tn_comm_limits* limits, E* e) {
    return below_.comm->limits(comm, limits, e);
  }
  virtual int32_t submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count, E* e) {
    return below_.comm->submit(comm, stream, ops, count, e);
  }
  virtual int32_t split(tn_comm* comm, int32_t color, int32_t key, const tn_comm_options* options,
                        tn_comm** out, E* e) {
    return below_.comm->split(comm, color, key, options, out, e);
  }
  virtual int32_t abort(tn_comm* comm, E* e) { return below_.comm->abort(comm, e); }
  virtual int32_t health(tn_comm* comm, E* e) { return below_.comm->health(comm, e); }
  virtual int32_t comm_destroy(tn_comm* comm, uint64_t timeout_ns, E* e) {
    return below_.comm->destroy(comm, timeout_ns, e);
  }

  virtual int32_t capture_begin(tn_stream* stream, E* e) { return below_capture_->begin(stream, e); }
  virtual int32_t capture_end(tn_stream* stream, tn_capture** capture, E* e) {
    return below_capture_->end(stream, capture, e);
  }
  virtual int32_t capture_replay(tn_capture* capture, tn_stream* stream, E* e) {
    return below_capture_->replay(capture, stream, e);
  }
  virtual int32_t capture_destroy(tn_capture* capture, E* e) { return below_capture_->destroy(capture, e); }
  virtual int32_t import_stream(tn_device* device, uint64_t native, tn_stream** stream, E* e) {
    return below_import_->stream(device, native, stream, e);
  }
  virtual int32_t import_memory(tn_device* device, uint64_t address, uint64_t bytes, tn_memory** memory,
                                E* e) {
    return below_import_->memory(device, address, bytes, memory, e);
  }
  virtual int32_t import_native(tn_stream* stream, uint64_t* native, E* e) {
    return below_import_->native(stream, native, e);
  }
  virtual int32_t ipc_ticket_bytes(tn_device* device, uint64_t* bytes, E* e) {
    return below_ipc_->ticket_bytes(device, bytes, e);
  }
  virtual int32_t ipc_export_memory(tn_memory* memory, void* ticket, uint64_t bytes, E* e) {
    return below_ipc_->export_memory(memory, ticket, bytes, e);
  }
  virtual int32_t ipc_open_memory(tn_device* device, const void* ticket, uint64_t bytes, tn_memory** memory,
                                  E* e) {
    return below_ipc_->open_memory(device, ticket, bytes, memory, e);
  }

  // The standard extensions are shown through this layer, all others as they are.
  virtual const void* extension(const char* id);
  virtual int32_t quiesce(P*, E* e) { return below_.quiesce(&below_, e); }
  virtual int32_t shutdown(P*, E* e) { return below_.shutdown(&below_, e); }

 protected:
  const tn_plugin& below_;

 private:
  void fill_tables(size_t slot) noexcept;
  const void* extension_below(const char* id) const noexcept;

  tn_plugin descriptor_{};
  tn_device_api device_{};
  tn_stream_api stream_{};
  tn_kernel_api kernel_{};
  tn_comm_api comm_{};
  tn_capture_api capture_{};
  tn_import_api import_{};
  tn_ipc_api ipc_{};
  const tn_capture_api* below_capture_ = nullptr;  // null: the plugin has none
  const tn_import_api* below_import_ = nullptr;
  const tn_ipc_api* below_ipc_ = nullptr;
  size_t slot_ = max_interposers;  // none
};

// A layer made of interposers, one per plugin.
class InterposingLayer : public Layer {
 public:
  const tn_plugin* wrap(const tn_plugin* below) final;
  std::vector<std::string> report() const override;

 protected:
  virtual std::unique_ptr<Interposer> interpose(const tn_plugin& below) = 0;
  const std::vector<std::unique_ptr<Interposer>>& interposers() const noexcept { return interposers_; }
  // Ends all interposers; a layer whose interposers use its members calls this from its destructor.
  void drop_interposers() noexcept { interposers_.clear(); }

 private:
  std::vector<std::unique_ptr<Interposer>> interposers_;
  std::vector<std::string> unwrapped_;
};

}  // namespace tenon::layers
