// SPDX-License-Identifier: Apache-2.0
// validate_comm.cpp: communicators under validation.
//
// Invariant: submits of one communicator run in order, also on different streams, so each is ordered after the last.
#include "layers/check.hpp"
#include "layers/text.hpp"
#include "layers/validate.hpp"

namespace tenon::layers {

void ValidatedPlugin::join(CommObject& comm, const StreamObject& stream) {
  const std::lock_guard lock(comm.mutex);
  if (comm.last) state_.hazards.waited(stream.slot, *comm.last);
}

void ValidatedPlugin::leave(CommObject& comm, const StreamObject& stream) {
  const std::lock_guard lock(comm.mutex);
  comm.last = state_.hazards.now(stream.slot);
}

int32_t ValidatedPlugin::comm_create(tn_device* device, uint32_t rank, uint32_t size, const void* id,
                                     uint64_t id_bytes, const tn_comm_options* options, tn_comm** comm,
                                     E* e) {
  Check check(*this, Function::comm_create, e);
  const auto on = check.device(device);
  check.pointer(comm, "communicator");
  if (id_bytes != 0) check.pointer(id, "id");
  if (rank >= size) {
    check.fail("rank", "rank " + std::to_string(rank) + " is outside a group of " + std::to_string(size));
  }
  if (check.refused()) return check.refusal();
  const int32_t code =
      settle(on, Interposer::comm_create(device, rank, size, id, id_bytes, options, comm, e));
  if (code != TN_OK) return code;
  const auto object = make<CommObject>(options == nullptr ? nullptr : options->name, "", on);
  object->rank = rank;
  comms_.enter(*comm, object);
  return code;
}

int32_t ValidatedPlugin::split(tn_comm* comm, int32_t color, int32_t key, const tn_comm_options* options,
                               tn_comm** out, E* e) {
  Check check(*this, Function::split, e);
  const auto object = check.comm(comm);
  check.pointer(out, "communicator");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(object->device, Interposer::split(comm, color, key, options, out, e));
  if (code != TN_OK || *out == nullptr) return code;
  comms_.enter(*out, make<CommObject>(options == nullptr ? nullptr : options->name, "", object->device));
  return code;
}

// Which of an operation's spans this rank uses; where that is not known neither is entered.
static std::pair<bool, bool> sides(const tn_comm_op& op, int64_t rank) {
  switch (op.kind) {
    case TN_COMM_BROADCAST:
      return {rank == op.peer, rank >= 0};
    case TN_COMM_REDUCE:
      return {rank >= 0, rank == op.peer};
    case TN_COMM_SEND:
      return {true, false};
    case TN_COMM_RECV:
      return {false, true};
    case TN_COMM_BARRIER:
      return {false, false};
    default:
      return {true, true};
  }
}

int32_t ValidatedPlugin::submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count,
                                E* e) {
  Check check(*this, Function::submit, e);
  const auto group = check.comm(comm);
  const auto on = check.stream(stream);
  if (group && on) check.same_device(*group, *on);
  std::vector<Access> uses;
  if (count != 0 && check.pointer(ops, "ops")) {
    for (uint32_t i = 0; i < count && group; ++i) {
      const auto [sends, receives] = sides(ops[i], group->rank);
      const auto add = [&](const tn_span& span, const char* side, bool used, bool write) {
        const Place place = check.span(&span, side + (" of op " + std::to_string(i)), Purpose::compute);
        if (used && place.bytes != 0) add_uses(uses, place, std::nullopt, write);
      };
      add(ops[i].send, "send", sends, false);
      add(ops[i].recv, "recv", receives, true);
      add(ops[i].factor, "factor", true, false);
    }
  }
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "submit");
  const int32_t code = Interposer::submit(comm, stream, ops, count, e);
  if (code == TN_OK && !check.failed()) {
    join(*group, *on);
    enqueued(*on, "submit to " + group->name, uses);
    leave(*group, *on);
  }
  return settle(on->device, code);
}

int32_t ValidatedPlugin::abort(tn_comm* comm, E* e) {
  Check check(*this, Function::abort, e);
  const auto object = check.comm(comm);
  if (check.refused()) return check.refusal();
  return settle(object->device, Interposer::abort(comm, e));
}

int32_t ValidatedPlugin::health(tn_comm* comm, E* e) {
  Check check(*this, Function::health, e);
  const auto object = check.comm(comm);
  if (check.refused()) return check.refusal();
  return settle(object->device, Interposer::health(comm, e));
}

int32_t ValidatedPlugin::comm_destroy(tn_comm* comm, uint64_t timeout_ns, E* e) {
  Check check(*this, Function::comm_destroy, e);
  const auto object = check.comm(comm);
  if (check.refused()) return check.refusal();
  comms_.end(comm, current_call());
  return settle(object->device, Interposer::comm_destroy(comm, timeout_ns, e));
}

}  // namespace tenon::layers
