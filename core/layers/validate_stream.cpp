// SPDX-License-Identifier: Apache-2.0
// validate_stream.cpp: streams under validation: what is enqueued, and what orders it.
//
// Invariant: an operation is entered after the plugin took it and before the call returns, so whatever another thread
// learns of it (a recorded value) comes later.
#include "layers/check.hpp"
#include "layers/text.hpp"
#include "layers/validate.hpp"

#include <array>

namespace tenon::layers {
namespace {

Access use_of(const Place& place, bool write) {
  return {place.region, {place.begin, place.begin + place.bytes}, write, write || !place.pageable};
}

bool intersect(const Place& a, const Place& b) {
  return a.region == b.region && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

void run_host_call(void* argument) noexcept {
  auto* note = static_cast<HostCallNote*>(argument);
  try {
    note->hazards->over(note->moment);
  } catch (...) {  // without host memory the note is lost, the call is not
  }
  note->call(note->argument);
  note->done.store(true, std::memory_order_release);
}

}  // namespace

int32_t ValidatedPlugin::stream_create(tn_device* device, const tn_stream_options* options,
                                       tn_stream** stream, E* e) {
  Check check(*this, Function::stream_create, e);
  const auto on = check.device(device);
  check.pointer(stream, "stream");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(on, Interposer::stream_create(device, options, stream, e));
  if (code != TN_OK) return code;
  const bool named = options != nullptr && options->size > offsetof(tn_stream_options, name);
  streams_.enter(*stream, make<StreamObject>(named ? options->name : nullptr, "", on));
  return code;
}

int32_t ValidatedPlugin::import_stream(tn_device* device, uint64_t native, tn_stream** stream, E* e) {
  Check check(*this, Function::import_stream, e);
  const auto on = check.device(device);
  check.pointer(stream, "stream");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(on, Interposer::import_stream(device, native, stream, e));
  if (code == TN_OK) streams_.enter(*stream, make<StreamObject>(nullptr, "imported, ", on));
  return code;
}

int32_t ValidatedPlugin::stream_destroy(tn_stream* stream, uint32_t mode, E* e) {
  Check check(*this, Function::stream_destroy, e);
  const auto object = check.stream(stream);
  if (mode > TN_DESTROY_ABANDON)
    check.fail("mode", "mode " + std::to_string(mode) + " is neither COMPLETE nor ABANDON");
  if (check.refused()) return check.refusal();
  const StreamUse use(object.get(), state_.findings, "stream.destroy");
  streams_.end(stream, current_call());
  const int32_t code = Interposer::stream_destroy(stream, mode, e);
  state_.hazards.remove_stream(object->slot);
  object->host_calls.clear();
  return settle(object->device, code);
}

int32_t ValidatedPlugin::copy(tn_stream* stream, const tn_span* dst, const tn_span* src, E* e) {
  Check check(*this, Function::copy, e);
  const auto on = check.stream(stream);
  const Place to = check.span(dst, "dst", Purpose::copy), from = check.span(src, "src", Purpose::copy);
  if (!check.failed() && dst->bytes != src->bytes) {
    check.fail("sizes", "dst has " + std::to_string(dst->bytes) + " bytes and src " +
                            std::to_string(src->bytes) + ": a copy moves equal counts");
  }
  if (!check.failed() && intersect(to, from)) {
    check.fail("overlap", "dst and src overlap in " + state_.name_of(use_of(to, true)) +
                              ": copy by way of other memory");
  }
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "copy");
  const int32_t code = Interposer::copy(stream, dst, src, e);
  if (code == TN_OK && !check.failed())
    enqueued(*on, "copy", std::array{use_of(to, true), use_of(from, false)});
  return settle(on->device, code);
}

int32_t ValidatedPlugin::copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src,
                                      const tn_copy_shape* shape, E* e) {
  Check check(*this, Function::copy_strided, e);
  const auto on = check.stream(stream);
  const Place to = check.span(dst, "dst", Purpose::copy), from = check.span(src, "src", Purpose::copy);
  Footprint to_box, from_box;
  if (check.pointer(shape, "shape")) {
    if (shape->rank < 1 || shape->rank > 4) {
      check.forbid("rank", "shape.rank is " + std::to_string(shape->rank) + ": 1 to 4");
    } else {
      to_box = footprint({shape->extent, shape->rank}, {shape->dst_stride, shape->rank}, 1);
      from_box = footprint({shape->extent, shape->rank}, {shape->src_stride, shape->rank}, 1);
    }
  }
  if (!check.failed() && (to_box.extent > dst->bytes || from_box.extent > src->bytes)) {
    check.forbid("box", "the box reaches byte " + std::to_string(to_box.extent) + " of dst (" +
                            std::to_string(dst->bytes) + " bytes) and byte " +
                            std::to_string(from_box.extent) + " of src (" + std::to_string(src->bytes) +
                            " bytes)");
  }
  if (!check.failed() && to.region == from.region && overlap(to_box, to.begin, from_box, from.begin)) {
    check.fail("overlap", "the boxes of dst and src overlap in " + state_.name_of(use_of(to, true)));
  }
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "copy_strided");
  const int32_t code = Interposer::copy_strided(stream, dst, src, shape, e);
  if (code == TN_OK && !check.failed()) {
    std::vector<Access> uses;
    add_uses(uses, to, to_box, true);
    add_uses(uses, from, from_box, false);
    enqueued(*on, "copy_strided", uses);
  }
  return settle(on->device, code);
}

int32_t ValidatedPlugin::fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
                              E* e) {
  Check check(*this, Function::fill, e);
  const auto on = check.stream(stream);
  const Place to = check.span(dst, "dst", Purpose::compute);
  const bool size = pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4 || pattern_bytes == 8;
  if (!size || (dst != nullptr && dst->bytes % pattern_bytes != 0)) {
    check.fail("pattern", "pattern_bytes " + std::to_string(pattern_bytes) +
                              " is not 1, 2, 4 or 8, or does not divide the bytes of dst");
  }
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "fill");
  const int32_t code = Interposer::fill(stream, dst, pattern, pattern_bytes, e);
  if (code == TN_OK && !check.failed()) enqueued(*on, "fill", std::array{use_of(to, true)});
  return settle(on->device, code);
}

int32_t ValidatedPlugin::record(tn_stream* stream, uint32_t flags, uint64_t* value, E* e) {
  Check check(*this, Function::record, e);
  const auto on = check.stream(stream);
  check.pointer(value, "value");
  if ((flags & ~TN_RECORD_TIMED) != 0)
    check.fail("flags", "flags " + hex_number(flags) + " hold an unknown bit");
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "record");
  const int32_t code = Interposer::record(stream, flags, value, e);
  if (code == TN_OK) state_.hazards.recorded(on->slot, *value);
  return settle(on->device, code);
}

void ValidatedPlugin::check_value(Check& check, const StreamObject* stream, uint64_t value) {
  if (stream == nullptr || stream->foreign || value <= state_.hazards.newest(stream->slot)) return;
  check.fail("value|" + stream->name,
             "value " + std::to_string(value) + " was neither recorded nor promised on " + stream->name +
                 ", whose newest is " + std::to_string(state_.hazards.newest(stream->slot)));
}

int32_t ValidatedPlugin::wait(tn_stream* stream, tn_stream* other, uint64_t value, E* e) {
  Check check(*this, Function::wait, e);
  const auto on = check.stream(stream), source = check.stream(other, "other");
  check_value(check, source.get(), value);
  if (on && source && (below_.features & TN_FEATURE_CROSS_DEVICE_WAIT) == 0) check.same_device(*on, *source);
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "wait");
  const int32_t code = Interposer::wait(stream, other, value, e);
  if (code == TN_OK && source->foreign) state_.hazards.waited(on->slot, state_.hazards.now(source->slot));
  if (code == TN_OK) state_.hazards.waited(on->slot, source->slot, value);
  return settle(on->device, code);
}

int32_t ValidatedPlugin::query(tn_stream* stream, uint64_t* completed, E* e) {
  Check check(*this, Function::query, e);
  const auto on = check.stream(stream);
  check.pointer(completed, "completed");
  if (check.refused()) return check.refusal();
  const int32_t code = Interposer::query(stream, completed, e);
  if (code == TN_OK) state_.hazards.reached(on->slot, *completed);
  return settle(on->device, code);
}

int32_t ValidatedPlugin::sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, E* e) {
  Check check(*this, Function::sync, e);
  const auto on = check.stream(stream);
  check_value(check, on.get(), value);
  if (check.refused()) return check.refusal();
  const int32_t code = Interposer::sync(stream, value, timeout_ns, e);
  if (code == TN_OK) state_.hazards.reached(on->slot, value);
  return settle(on->device, code);
}

int32_t ValidatedPlugin::timestamp(tn_stream* stream, uint64_t value, uint64_t* ns, E* e) {
  Check check(*this, Function::timestamp, e);
  const auto on = check.stream(stream);
  check.pointer(ns, "ns");
  check_value(check, on.get(), value);
  if (check.refused()) return check.refusal();
  const int32_t code = Interposer::timestamp(stream, value, ns, e);
  if (code == TN_OK) state_.hazards.reached(on->slot, value);
  return settle(on->device, code);
}

int32_t ValidatedPlugin::host_call(tn_stream* stream, void (*call)(void*), void* argument, E* e) {
  Check check(*this, Function::host_call, e);
  const auto on = check.stream(stream);
  check.pointer(reinterpret_cast<const void*>(call), "call");
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "host_call");
  on->host_calls.remove_if(
      [](const HostCallNote& note) { return note.done.load(std::memory_order_acquire); });
  HostCallNote& note = on->host_calls.emplace_back();
  note.hazards = &state_.hazards;
  note.moment = state_.hazards.now(on->slot);
  note.call = call;
  note.argument = argument;
  const int32_t code = Interposer::host_call(stream, &run_host_call, &note, e);
  if (code != TN_OK) on->host_calls.pop_back();
  return settle(on->device, code);
}

int32_t ValidatedPlugin::promise(tn_stream* stream, uint64_t* value, E* e) {
  Check check(*this, Function::promise, e);
  const auto on = check.stream(stream);
  check.pointer(value, "value");
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "promise");
  const int32_t code = Interposer::promise(stream, value, e);
  if (code == TN_OK) state_.hazards.promised(on->slot, *value);
  return settle(on->device, code);
}

int32_t ValidatedPlugin::signal(tn_stream* stream, uint64_t value, int32_t code, E* e) {
  Check check(*this, Function::signal, e);
  const auto on = check.stream(stream);
  if (on && !on->foreign && !state_.hazards.promise_open(on->slot, value)) {
    check.fail("signal|" + on->name, "value " + std::to_string(value) + " of " + on->name +
                                         " was not promised, or its promise was kept already");
  }
  if (check.refused()) return check.refusal();
  const int32_t done = Interposer::signal(stream, value, code, e);
  if (done == TN_OK) state_.hazards.signalled(on->slot, value);
  return settle(on->device, done);
}

}  // namespace tenon::layers
