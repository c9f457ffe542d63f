// SPDX-License-Identifier: Apache-2.0
// comm_table.hpp: tn_comm_api made from the author's Device and Comm.
//
//   class Comm {
//     void limits(tn_comm_limits& out) const;   // what it takes; the framework refuses the rest
//     Status submit(Stream& stream, std::span<const tn_comm_op> ops);   // one group
//     Status abort();                           // any thread; marks and returns at once
//     Status health();                          // TN_BUSY while it is being created
//     Status finish(uint64_t timeout_ns);       // joins the teardown, before destruction
//     Result<std::unique_ptr<Comm>> split(int32_t color, int32_t key, const tn_comm_options& o);   // optional
//   };
//
// Invariant: an author is asked only for kinds, dtypes and reductions that its own limits list, on spans that
// hold them.
#pragma once

#include <tenon/comm.h>
#include <tenon/author/names.hpp>
#include <tenon/author/stream_table.hpp>

namespace tenon::author {

template <class Plugin>
struct CommTable {
  using Device = typename Plugin::Device;
  using Comm = typename Plugin::Comm;
  using Handle = CommHandle<Comm, Device>;
  using H = Handles<Plugin>;

  static int32_t id_bytes(tn_device* device, uint64_t* bytes, tn_error* error) noexcept {
    if (bytes != nullptr) *bytes = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || bytes == nullptr) return is_null("device or bytes");
      *bytes = TN_TRY(H::of(device).object->comm_id_bytes());
      return {};
    });
  }

  static int32_t make_id(tn_device* device, void* id, uint64_t bytes, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || id == nullptr) return is_null("device or id");
      TN_TRY(check_id(device, bytes));
      return H::of(device).object->make_comm_id({static_cast<std::byte*>(id), static_cast<size_t>(bytes)});
    });
  }

  static int32_t create(tn_device* device, uint32_t rank, uint32_t size, const void* id, uint64_t id_bytes,
                        const tn_comm_options* options, tn_comm** out, tn_error* error) noexcept {
    if (out != nullptr) *out = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || id == nullptr || out == nullptr) return is_null("device, id or comm");
      if (rank >= size) return Status(TN_INVALID, text("rank ", rank, " of ", size, ": ranks start at 0"));
      TN_TRY(check_id(device, id_bytes));
      const Incoming<tn_comm_options> wanted(options);
      TN_TRY(check_links<Plugin>(wanted->next, "tn_comm_options"));
      auto& parent = H::of(device);
      const std::span<const std::byte> bytes(static_cast<const std::byte*>(id),
                                             static_cast<size_t>(id_bytes));
      auto comm = TN_TRY(parent.object->create_comm(rank, size, bytes, *wanted));
      if (comm == nullptr) return Status(TN_INTERNAL, "Device::create_comm succeeded without a communicator");
      *out = wrap_comm(parent, size, std::move(comm));
      return {};
    });
  }

  static int32_t limits(tn_comm* comm, tn_comm_limits* out, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (comm == nullptr) return is_null("comm");
      TN_TRY(check_out(out, "tn_comm_limits"));
      auto full = outgoing<tn_comm_limits>();
      H::of(comm).object->limits(full);
      write_out(full, out);
      return {};
    });
  }

  static int32_t submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count,
                        tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (comm == nullptr || stream == nullptr || (ops == nullptr && count != 0))
        return is_null("comm, stream or ops");
      auto& handle = H::of(comm);
      auto takes = outgoing<tn_comm_limits>();
      handle.object->limits(takes);
      if (takes.max_ops != 0 && count > takes.max_ops) {
        return Status(TN_UNSUPPORTED,
                      text(count, " operations in one submit; this communicator takes ", takes.max_ops));
      }
      for (uint32_t i = 0; i < count; ++i) TN_TRY(check_op(handle, takes, ops[i], i));
      return handle.object->submit(*H::of(stream).object, {ops, count});
    });
  }

  static int32_t split(tn_comm* comm, int32_t color, int32_t key, const tn_comm_options* options,
                       tn_comm** out, tn_error* error) noexcept {
    if (out != nullptr) *out = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      if (comm == nullptr || out == nullptr) return is_null("comm or out");
      const Incoming<tn_comm_options> wanted(options);
      TN_TRY(check_links<Plugin>(wanted->next, "tn_comm_options"));
      auto& handle = H::of(comm);
      auto part = TN_TRY(handle.object->split(color, key, *wanted));
      if (part == nullptr && color >= 0)
        return Status(TN_INTERNAL, "Comm::split succeeded without a communicator");
      if (part != nullptr) *out = wrap_comm(*handle.device, 0, std::move(part));
      return {};
    });
  }

  static int32_t abort(tn_comm* comm, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (comm == nullptr) return is_null("comm");
      return H::of(comm).object->abort();
    });
  }

  static int32_t health(tn_comm* comm, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (comm == nullptr) return is_null("comm");
      return H::of(comm).object->health();
    });
  }

  // A communicator whose teardown did not end in time is left to its own threads, never freed under them.
  static int32_t destroy(tn_comm* comm, uint64_t timeout_ns, tn_error* error) noexcept {
    return farewell<Plugin>(error, [&]() -> Status {
      if (comm == nullptr) return is_null("comm");
      const Leaving leaving{H::of(comm).device->children.comms};
      const std::unique_ptr<Handle> handle(&H::of(comm));
      Status last = handle->object->finish(timeout_ns);
      if (last.code() == TN_TIMEOUT) static_cast<void>(handle->owner.release());
      return last;
    });
  }

  static constexpr auto split_slot() -> decltype(tn_comm_api::split) {
    if constexpr (has::split<Comm>) return &split;
    return nullptr;
  }

  static constexpr tn_comm_api table{
      .header = {sizeof(tn_comm_api), TN_ABI_MAJOR, TN_ABI_MINOR},
      .id_bytes = &id_bytes,
      .make_id = &make_id,
      .create = &create,
      .limits = &limits,
      .submit = &submit,
      .split = split_slot(),
      .abort = &abort,
      .health = &health,
      .destroy = &destroy,
  };

 private:
  static tn_comm* wrap_comm(typename H::Device& parent, uint32_t size, std::unique_ptr<Comm> comm) {
    auto handle = std::make_unique<Handle>();
    handle->object = comm.get();
    handle->size = size;
    handle->device = &parent;
    handle->owner = std::move(comm);
    parent.children.comms.fetch_add(1);
    return reinterpret_cast<tn_comm*>(handle.release());
  }

  static Status check_id(tn_device* device, uint64_t bytes) {
    const uint64_t needed = TN_TRY(H::of(device).object->comm_id_bytes());
    if (bytes == needed) return {};
    return Status(TN_INVALID, text("an id has ", needed, " bytes, not ", bytes, ": ask id_bytes"));
  }

  static bool listed(uint64_t mask, uint32_t bit) noexcept { return bit < 64 && (mask >> bit & 1) != 0; }

  static bool reduces(uint32_t kind) noexcept {
    return kind == TN_COMM_ALL_REDUCE || kind == TN_COMM_REDUCE || kind == TN_COMM_REDUCE_SCATTER;
  }

  static Status check_op(const Handle& handle, const tn_comm_limits& takes, const tn_comm_op& op,
                         uint32_t index) {
    TN_TRY(check_links<Plugin>(op.next, "tn_comm_op"));
    const auto refuse = [&](int32_t code, const std::string& why) {
      return Status(code, text("operation ", index, ": ", why));
    };
    if (!listed(takes.kind_mask, op.kind))
      return refuse(TN_UNSUPPORTED, text("kind ", op.kind, " is not in kind_mask"));
    if (op.kind == TN_COMM_BARRIER) return {};
    if (!listed(takes.dtype_mask, op.dtype)) {
      return refuse(TN_UNSUPPORTED,
                    text("dtype ", dtype_name(op.dtype), " (", op.dtype, ") is not in dtype_mask"));
    }
    if (reduces(op.kind)) {
      if (!listed(takes.reduce_mask, op.reduce))
        return refuse(TN_UNSUPPORTED, text("reduction ", op.reduce, " is not in reduce_mask"));
      if (!listed(takes.reducible_mask, op.dtype))
        return refuse(TN_UNSUPPORTED, text(dtype_name(op.dtype), " is not in reducible_mask"));
    }
    const bool has_peer = op.kind == TN_COMM_BROADCAST || op.kind == TN_COMM_REDUCE ||
                          op.kind == TN_COMM_SEND || op.kind == TN_COMM_RECV;
    if (has_peer && (op.peer < 0 || (handle.size != 0 && static_cast<uint32_t>(op.peer) >= handle.size))) {
      return refuse(TN_INVALID, text("peer ", op.peer, " of ", handle.size, " ranks"));
    }
    if (op.reduce == TN_REDUCE_PREMUL_SUM && reduces(op.kind))
      TN_TRY(check_span<Plugin>(op.factor, Spaces::device, "factor"));
    TN_TRY(check_span<Plugin>(op.send, Spaces::device, "send"));
    return check_span<Plugin>(op.recv, Spaces::device, "recv");
  }
};

}  // namespace tenon::author
