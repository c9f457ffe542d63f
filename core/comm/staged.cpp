// SPDX-License-Identifier: Apache-2.0
// staged.cpp: see staged.hpp.
//
// The caller's stream copies down and tells the carrier's stream; that one runs the group and tells the caller's, which
// copies up. No host thread waits where both plugins have promises; where the device's plugin has none, `wait` blocks.
// Host calls are no way out: a device may run those of all its streams on one thread, and ranks of one device would wait for
// each other there.
#include "comm/staged.hpp"

#include "runtime/runtime_state.hpp"

#include <algorithm>
#include <numeric>

namespace tenon::comm {
namespace {

// The part of `span` that holds `elements`; all of it when it is too small, which the carrier refuses.
tn_span holding(tn_span span, uint64_t elements, uint64_t width) noexcept {
  uint64_t bytes = 0;
  if (!__builtin_mul_overflow(elements, width, &bytes)) span.bytes = std::min(span.bytes, bytes);
  return span;
}

uint64_t total(const uint64_t* counts, uint32_t size) noexcept {
  return counts == nullptr ? 0 : std::accumulate(counts, counts + size, uint64_t{0});
}

// What of an operation's spans this rank reads and writes.
struct Sides {
  tn_span send{}, recv{};
};
Sides sides_of(const tn_comm_op& op, uint32_t rank, uint32_t size) noexcept {
  const uint64_t width = bits(static_cast<DType>(op.dtype)) / 8;
  const bool at_root = static_cast<uint32_t>(op.peer) == rank;
  uint64_t all = 0;
  if (__builtin_mul_overflow(op.count, uint64_t{size}, &all)) all = UINT64_MAX;
  const auto given = [&](uint64_t elements) { return holding(op.send, elements, width); };
  const auto got = [&](uint64_t elements) { return holding(op.recv, elements, width); };
  switch (op.kind) {
    case TN_COMM_BROADCAST:
      return {at_root ? given(op.count) : tn_span{}, got(op.count)};
    case TN_COMM_REDUCE:
      return {given(op.count), at_root ? got(op.count) : tn_span{}};
    case TN_COMM_ALL_GATHER:
      return {given(op.count), got(all)};
    case TN_COMM_REDUCE_SCATTER:
      return {given(all), got(op.count)};
    case TN_COMM_ALL_TO_ALL:
      return {given(all), got(all)};
    case TN_COMM_ALL_TO_ALL_V:
      return {given(total(op.send_counts, size)), got(total(op.recv_counts, size))};
    case TN_COMM_SEND:
      return {given(op.count), {}};
    case TN_COMM_RECV:
      return {{}, got(op.count)};
    case TN_COMM_BARRIER:
      return {};
    default:
      return {given(op.count), got(op.count)};
  }
}

bool overlap(const tn_span& a, const tn_span& b) noexcept {
  return a.space == b.space && a.memory == b.memory && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

// The range that covers both.
tn_span joined(const tn_span& a, const tn_span& b) noexcept {
  tn_span both = a;
  both.offset = std::min(a.offset, b.offset);
  both.bytes = std::max(a.offset + a.bytes, b.offset + b.bytes) - both.offset;
  return both;
}

// Whether host memory of `device` can be staged in: its copies reach it without waiting, and `carrier` works on addresses.
bool can_pin(const std::shared_ptr<detail::DeviceState>& device, const detail::DeviceState& carrier,
             Stream& stream) {
  if ((carrier.plugin->features & TN_FEATURE_ADDRESSABLE) == 0) return false;
  const auto trial = Device(device).allocate(stream, 1, MemoryKind::host);
  return trial.ok() && trial->address().ok();
}

}  // namespace

Result<std::shared_ptr<detail::CommState>> Staged::join(const std::shared_ptr<detail::DeviceState>& device,
                                                        const Store& store, uint32_t rank, uint32_t size,
                                                        CommOptions options) {
  const auto carrier = TN_TRY(runtime::open_carrier(device->owner, device->name));
  return over(device, TN_TRY(make_state(carrier, store, rank, size, std::move(options))));
}

Result<std::shared_ptr<detail::CommState>> Staged::over(const std::shared_ptr<detail::DeviceState>& device,
                                                        std::shared_ptr<CommState> carrying) {
  auto made = std::make_shared<Staged>(device, carrying->store);
  made->rank = carrying->rank;
  made->size = carrying->size;
  made->options = carrying->options;
  made->key = carrying->key;
  made->limits = carrying->limits;
  made->line_ = TN_TRY(
      Device(carrying->device)
          .stream({.name = "communicator '" + carrying->options.name + "', staged for " + device->name}));
  Stream probe = TN_TRY(Device(device).stream({.name = "staging"}));
  made->pinned_ = can_pin(device, *carrying->device, probe);
  made->carrying_ = std::move(carrying);
  return std::shared_ptr<CommState>(std::move(made));
}

// Memory in the order of the caller's stream, or, where the device has none that the host sees, in the carrier's. To the
// carrier the former is an address of its own kind, as its memory is the host's.
Result<Staged::Room> Staged::make_room(Stream& stream, uint64_t bytes) {
  Room room;
  if (pinned_) {
    room.memory = TN_TRY(Device(device).allocate(stream, bytes, MemoryKind::host));
  } else {
    room.memory = TN_TRY(Device(carrying_->device).allocate(line_, bytes));
  }
  const uint64_t address = TN_TRY(room.memory.address());
  const tn_span own = room.memory.span();
  room.staged = pinned_ ? own : tn_span{nullptr, address, bytes, TN_SPACE_HOST_ADDRESS, 0};
  room.carried = pinned_ ? tn_span{nullptr, address, bytes, TN_SPACE_DEVICE_ADDRESS, 0} : own;
  return room;
}

// A place on the host for `span`; the carrier's view of it.
Result<tn_span> Staged::stage(Stream& stream, const tn_span& span, bool down, bool up, Journey& out) {
  if (span.bytes == 0) return tn_span{};
  Room room = TN_TRY(make_room(stream, span.bytes));
  if (down) out.down.push_back({span, room.staged});
  if (up) out.up.push_back({span, room.staged});
  const tn_span seen = room.carried;
  out.rooms.push_back(std::move(room));
  return seen;
}

Status Staged::pack(Stream& stream, const CommOp& op, Journey& out) {
  CommOp there = op;
  const Sides sides = sides_of(op.abi, rank, size);
  const tn_span &send = sides.send, &recv = sides.recv;
  there.abi.factor = TN_TRY(stage(stream, op.abi.factor, true, false, out));
  if (send.bytes != 0 && recv.bytes != 0 && overlap(send, recv)) {
    const tn_span both = joined(send, recv);
    const tn_span seen = TN_TRY(stage(stream, both, false, false, out));
    const auto part = [&](tn_span whole, const tn_span& of) {
      whole.offset += of.offset - both.offset;
      whole.bytes = of.bytes;
      return whole;
    };
    out.down.push_back({send, part(out.rooms.back().staged, send)});
    out.up.push_back({recv, part(out.rooms.back().staged, recv)});
    there.abi.send = part(seen, send);
    there.abi.recv = part(seen, recv);
  } else {
    there.abi.send = TN_TRY(stage(stream, send, true, false, out));
    there.abi.recv = TN_TRY(stage(stream, recv, false, true, out));
  }
  out.ops.push_back(there);
  return {};
}

Status Staged::submit(Stream& stream, std::span<const CommOp> group, std::optional<Route> route) {
  TN_TRY(carrying_->health());
  const std::lock_guard lock(mutex_);
  Journey journey;
  for (const CommOp& op : group) TN_TRY(pack(stream, op, journey));
  return travel(stream, journey, route);
}

// A refusal by the carrier comes after the copies down, which harm nobody.
Status Staged::travel(Stream& stream, Journey& journey, std::optional<Route> route) {
  TN_TRY(turn_.begin(stream));
  for (const Travel& way : journey.down) TN_TRY(stream.copy(way.host, way.device));
  TN_TRY(line_.wait(TN_TRY(stream.record())));
  TN_TRY(carrying_->submit(line_, journey.ops, route));
  const Point done = TN_TRY(line_.record());
  if (pinned_) {
    for (Room& room : journey.rooms) TN_TRY(room.memory.used_on(line_));
    TN_TRY(stream.wait(done));
  } else {
    TN_TRY(
        done.sync());  // a pageable source is read when the copy is asked for, so its bytes have to be there
  }
  for (const Travel& way : journey.up) TN_TRY(stream.copy(way.device, way.host));
  return turn_.end(stream);
}

Result<std::shared_ptr<detail::CommState>> Staged::part(std::span<const uint32_t> members,
                                                        const std::string& called) {
  return over(device, TN_TRY(carrying_->part(members, called)));
}

Status Staged::destroy(Timeout timeout) {
  turn_ = {};
  return carrying_->destroy(timeout);
}

}  // namespace tenon::comm
