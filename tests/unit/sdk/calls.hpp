// SPDX-License-Identifier: Apache-2.0
// calls.hpp: every call of every table that reaches an author's method, as one list.
//
// Invariant: a slot added to a table without a row here fails "guard: the list of calls is complete".
#pragma once

#include "scripted.hpp"

namespace scripted {

struct Call {
  const char* method;  // the author's method behind it
  std::function<int32_t(Bench&, tn_error*)> make;
};

inline void no_call(void*) {}

inline std::vector<Call> device_calls() {
  return {
      {"Plugin::device_count",
       [](Bench& b, tn_error* e) {
         uint32_t n;
         return b.plugin->device->count(b.plugin, &n, e);
       }},
      {"Plugin::describe",
       [](Bench& b, tn_error* e) {
         auto info = tenon::author::outgoing<tn_device_info>();
         return b.plugin->device->info(b.plugin, 0, &info, e);
       }},
      {"Plugin::open",
       [](Bench& b, tn_error* e) {
         tn_device* d;
         return b.plugin->device->open(b.plugin, 0, nullptr, &d, e);
       }},
      {"Device::memory_info",
       [](Bench& b, tn_error* e) {
         auto info = tenon::author::outgoing<tn_memory_info>();
         return b.plugin->device->memory_info(b.device, &info, e);
       }},
      {"Device::allocate",
       [](Bench& b, tn_error* e) {
         tn_memory* m;
         return b.plugin->device->alloc(b.device, TN_MEMORY_DEVICE, 1, 0, &m, e);
       }},
      {"Memory::address",
       [](Bench& b, tn_error* e) {
         uint64_t a;
         return b.plugin->device->address(b.memory, &a, e);
       }},
      {"Plugin::quiesce", [](Bench& b, tn_error* e) { return b.plugin->quiesce(b.plugin, e); }},
  };
}

inline std::vector<Call> stream_calls() {
  return {
      {"Device::create_stream",
       [](Bench& b, tn_error* e) {
         tn_stream* s;
         return b.plugin->stream->create(b.device, nullptr, &s, e);
       }},
      {"Stream::copy",
       [](Bench& b, tn_error* e) {
         const tn_span dst = b.span(0, 16), src = b.span(16, 16);
         return b.plugin->stream->copy(b.stream, &dst, &src, e);
       }},
      {"Stream::copy_strided",
       [](Bench& b, tn_error* e) {
         const tn_span dst = b.span(0, 16), src = b.span(16, 16);
         auto shape = tenon::author::outgoing<tn_copy_shape>();
         shape.rank = 1;
         shape.extent[0] = 16;
         shape.dst_stride[0] = shape.src_stride[0] = 1;
         return b.plugin->stream->copy_strided(b.stream, &dst, &src, &shape, e);
       }},
      {"Stream::fill",
       [](Bench& b, tn_error* e) {
         const tn_span dst = b.span(0, 16);
         return b.plugin->stream->fill(b.stream, &dst, 0, 4, e);
       }},
      {"Stream::record",
       [](Bench& b, tn_error* e) {
         uint64_t v;
         return b.plugin->stream->record(b.stream, 0, &v, e);
       }},
      {"Stream::wait", [](Bench& b, tn_error* e) { return b.plugin->stream->wait(b.stream, b.other, 0, e); }},
      {"Stream::completed",
       [](Bench& b, tn_error* e) {
         uint64_t v;
         return b.plugin->stream->query(b.stream, &v, e);
       }},
      {"Stream::sync", [](Bench& b, tn_error* e) { return b.plugin->stream->sync(b.stream, 0, 0, e); }},
      {"Stream::timestamp",
       [](Bench& b, tn_error* e) {
         uint64_t ns;
         return b.plugin->stream->timestamp(b.stream, 0, &ns, e);
       }},
      {"Stream::host_call",
       [](Bench& b, tn_error* e) { return b.plugin->stream->host_call(b.stream, &no_call, nullptr, e); }},
      {"Stream::promise",
       [](Bench& b, tn_error* e) {
         uint64_t v;
         return b.plugin->stream->promise(b.stream, &v, e);
       }},
      {"Stream::signal",
       [](Bench& b, tn_error* e) { return b.plugin->stream->signal(b.stream, 0, TN_OK, e); }},
  };
}

inline std::vector<Call> kernel_calls() {
  return {
      {"Device::supports",
       [](Bench& b, tn_error* e) {
         auto answer = tenon::author::outgoing<tn_support>();
         return b.plugin->kernel->supports(b.device, &b.add.fragment(), &answer, e);
       }},
      {"Device::patterns",
       [](Bench& b, tn_error* e) {
         tn_pattern_list list;
         return b.plugin->kernel->patterns(b.device, &list, e);
       }},
      {"Device::layouts",
       [](Bench& b, tn_error* e) {
         tn_string_list list;
         return b.plugin->kernel->layouts(b.device, &list, e);
       }},
      {"Device::layout_bytes",
       [](Bench& b, tn_error* e) {
         uint64_t n;
         return b.plugin->kernel->layout_bytes(b.device, b.add.fragment().tensors, &n, e);
       }},
      {"Device::compile",
       [](Bench& b, tn_error* e) {
         tn_kernel* k;
         return b.plugin->kernel->compile(b.device, &b.add.fragment(), nullptr, &k, e);
       }},
      {"Kernel::info",
       [](Bench& b, tn_error* e) {
         auto info = tenon::author::outgoing<tn_kernel_info>();
         return b.plugin->kernel->info(b.kernel, &info, e);
       }},
      {"Kernel::launch",
       [](Bench& b, tn_error* e) {
         const tn_span bindings[] = {b.span(0, 256), b.span(256, 256), b.span(512, 256)};
         return b.plugin->kernel->launch(b.kernel, b.stream, bindings, 3, nullptr, e);
       }},
      {"Kernel::save",
       [](Bench& b, tn_error* e) {
         uint64_t n;
         return b.plugin->kernel->save(b.kernel, nullptr, 0, &n, e);
       }},
      {"Device::load",
       [](Bench& b, tn_error* e) {
         tn_kernel* k;
         return b.plugin->kernel->load(b.device, &b.add.fragment(), "x", 1, &k, e);
       }},
  };
}

inline std::vector<Call> comm_calls() {
  return {
      {"Device::comm_id_bytes",
       [](Bench& b, tn_error* e) {
         uint64_t n;
         return b.plugin->comm->id_bytes(b.device, &n, e);
       }},
      {"Device::make_comm_id",
       [](Bench& b, tn_error* e) {
         char id[8];
         return b.plugin->comm->make_id(b.device, id, 8, e);
       }},
      {"Device::create_comm",
       [](Bench& b, tn_error* e) {
         tn_comm* c;
         return b.plugin->comm->create(b.device, 0, 1, "12345678", 8, nullptr, &c, e);
       }},
      {"Comm::limits",
       [](Bench& b, tn_error* e) {
         auto limits = tenon::author::outgoing<tn_comm_limits>();
         return b.plugin->comm->limits(b.comm, &limits, e);
       }},
      {"Comm::submit",
       [](Bench& b, tn_error* e) {
         tn_comm_op op{};
         op.kind = TN_COMM_BARRIER;
         return b.plugin->comm->submit(b.comm, b.stream, &op, 1, e);
       }},
      {"Comm::split",
       [](Bench& b, tn_error* e) {
         tn_comm* c;
         return b.plugin->comm->split(b.comm, 0, 0, nullptr, &c, e);
       }},
      {"Comm::abort", [](Bench& b, tn_error* e) { return b.plugin->comm->abort(b.comm, e); }},
      {"Comm::health", [](Bench& b, tn_error* e) { return b.plugin->comm->health(b.comm, e); }},
  };
}

inline std::vector<Call> all_calls() {
  std::vector<Call> out;
  for (auto list : {device_calls(), stream_calls(), kernel_calls(), comm_calls()})
    out.insert(out.end(), list.begin(), list.end());
  return out;
}

// Methods that return no Status of their own: they can throw, but not fail.
inline bool can_fail(const std::string& method) {
  return method != "Device::patterns" && method != "Device::layouts" && method != "Kernel::info" &&
         method != "Comm::limits";
}

}  // namespace scripted
