// SPDX-License-Identifier: Apache-2.0
// concepts.hpp: what a plugin's classes must and may have, one concept per method.
//
// Invariant: `has::x` means the method can be called as the framework calls it and returns exactly the stated
// type; `named::x` means only that something of that name is there, which tells "left out" from "misspelt".
#pragma once

#include <tenon/comm.h>
#include <tenon/kernel.h>
#include <tenon/result.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string_view>

// clang-format off
namespace tenon::author::has {

using std::same_as;

// Plugin
template <class P> concept device_count = requires(P& p) {
  { p.device_count() } -> same_as<Result<uint32_t>>;
};
template <class P> concept describe = requires(P& p, tn_device_info& out) {
  { p.describe(0u, out) } -> same_as<Status>;
};
template <class P> concept open = requires(P& p, const tn_device_options& o) {
  { p.open(0u, o) } -> same_as<Result<std::unique_ptr<typename P::Device>>>;
};
template <class P> concept extension = requires(P& p, std::string_view id) {
  { p.extension(id) } -> std::convertible_to<const void*>;
};
template <class P> concept quiesce = requires(P& p) { { p.quiesce() } -> same_as<Status>; };
template <class P> concept features = requires(const P& p) { { p.features() } -> same_as<uint64_t>; };

// Device
template <class D> concept limits = requires(const D& d, tn_device_limits& out) {
  { d.limits(out) } -> same_as<void>;
};
template <class D> concept memory_info = requires(D& d, tn_memory_info& out) {
  { d.memory_info(out) } -> same_as<Status>;
};
template <class D, class M> concept allocate = requires(D& d, uint64_t n) {
  { d.allocate(0u, n, n) } -> same_as<Result<std::unique_ptr<M>>>;
};
template <class D, class S> concept create_stream = requires(D& d, const tn_stream_options& o) {
  { d.create_stream(o) } -> same_as<Result<std::unique_ptr<S>>>;
};
template <class D> concept peer = requires(D& d) { { d.peer(d) } -> same_as<Result<bool>>; };
template <class D> concept supports = requires(D& d, const tn_fragment& f, tn_support& out) {
  { d.supports(f, out) } -> same_as<Status>;
};
template <class D, class K> concept compile =
  requires(D& d, const tn_fragment& f, const tn_compile_options& o) {
  { d.compile(f, o) } -> same_as<Result<std::unique_ptr<K>>>;
};
template <class D> concept patterns = requires(D& d) { { d.patterns() } -> same_as<tn_pattern_list>; };
template <class D> concept layouts = requires(D& d) { { d.layouts() } -> same_as<tn_string_list>; };
template <class D> concept layout_bytes = requires(D& d, const tn_tensor& t) {
  { d.layout_bytes(t) } -> same_as<Result<uint64_t>>;
};
template <class D, class K> concept load =
  requires(D& d, const tn_fragment& f, std::span<const std::byte> bytes) {
  { d.load(f, bytes) } -> same_as<Result<std::unique_ptr<K>>>;
};
template <class D> concept comm_id_bytes = requires(D& d) {
  { d.comm_id_bytes() } -> same_as<Result<uint64_t>>;
};
template <class D> concept make_comm_id = requires(D& d, std::span<std::byte> id) {
  { d.make_comm_id(id) } -> same_as<Status>;
};
template <class D, class C> concept create_comm =
  requires(D& d, std::span<const std::byte> id, const tn_comm_options& o) {
  { d.create_comm(0u, 0u, id, o) } -> same_as<Result<std::unique_ptr<C>>>;
};

// Memory
template <class M> concept bytes = requires(const M& m) { { m.bytes() } -> same_as<uint64_t>; };
template <class M> concept address = requires(M& m) { { m.address() } -> same_as<Result<uint64_t>>; };

// Stream
template <class S> concept copy = requires(S& s, const tn_span& span) {
  { s.copy(span, span) } -> same_as<Status>;
};
template <class S> concept fill = requires(S& s, const tn_span& span, uint64_t pattern) {
  { s.fill(span, pattern, 0u) } -> same_as<Status>;
};
template <class S> concept record = requires(S& s) { { s.record(0u) } -> same_as<Result<uint64_t>>; };
template <class S> concept wait = requires(S& s, uint64_t value) { { s.wait(s, value) } -> same_as<Status>; };
template <class S> concept completed = requires(S& s) { { s.completed() } -> same_as<Result<uint64_t>>; };
template <class S> concept sync = requires(S& s, uint64_t n) { { s.sync(n, n) } -> same_as<Status>; };
template <class S> concept finish = requires(S& s) { { s.finish(0u) } -> same_as<Status>; };
template <class S> concept copy_strided = requires(S& s, const tn_span& span, const tn_copy_shape& shape) {
  { s.copy_strided(span, span, shape) } -> same_as<Status>;
};
template <class S> concept timestamp = requires(S& s, uint64_t value) {
  { s.timestamp(value) } -> same_as<Result<uint64_t>>;
};
template <class S> concept host_call = requires(S& s, void (*call)(void*), void* argument) {
  { s.host_call(call, argument) } -> same_as<Status>;
};
template <class S> concept promise = requires(S& s) { { s.promise() } -> same_as<Result<uint64_t>>; };
template <class S> concept signal = requires(S& s, uint64_t value, int32_t code) {
  { s.signal(value, code) } -> same_as<Status>;
};

// Kernel
template <class K> concept info = requires(const K& k, tn_kernel_info& out) {
  { k.info(out) } -> same_as<void>;
};
template <class K, class S> concept launch =
  requires(K& k, S& s, std::span<const tn_span> bindings, const tn_span& workspace) {
  { k.launch(s, bindings, workspace) } -> same_as<Status>;
};
template <class K> concept save = requires(K& k, std::span<std::byte> out) {
  { k.save(out) } -> same_as<Result<uint64_t>>;
};

// Comm
template <class C> concept comm_limits = requires(const C& c, tn_comm_limits& out) {
  { c.limits(out) } -> same_as<void>;
};
template <class C, class S> concept submit = requires(C& c, S& s, std::span<const tn_comm_op> ops) {
  { c.submit(s, ops) } -> same_as<Status>;
};
template <class C> concept abort = requires(C& c) { { c.abort() } -> same_as<Status>; };
template <class C> concept health = requires(C& c) { { c.health() } -> same_as<Status>; };
template <class C> concept comm_finish = requires(C& c, uint64_t timeout) {
  { c.finish(timeout) } -> same_as<Status>;
};
template <class C> concept split = requires(C& c, int32_t n, const tn_comm_options& o) {
  { c.split(n, n, o) } -> same_as<Result<std::unique_ptr<C>>>;
};

}  // namespace tenon::author::has

namespace tenon::author::named {

template <class T> concept extension = requires { &T::extension; };
template <class T> concept quiesce = requires { &T::quiesce; };
template <class T> concept features = requires { &T::features; };
template <class T> concept peer = requires { &T::peer; };
template <class T> concept patterns = requires { &T::patterns; };
template <class T> concept layouts = requires { &T::layouts; };
template <class T> concept layout_bytes = requires { &T::layout_bytes; };
template <class T> concept load = requires { &T::load; };
template <class T> concept address = requires { &T::address; };
template <class T> concept copy_strided = requires { &T::copy_strided; };
template <class T> concept timestamp = requires { &T::timestamp; };
template <class T> concept host_call = requires { &T::host_call; };
template <class T> concept promise = requires { &T::promise; };
template <class T> concept signal = requires { &T::signal; };
template <class T> concept save = requires { &T::save; };
template <class T> concept split = requires { &T::split; };

}  // namespace tenon::author::named
// clang-format on

namespace tenon::author {

template <class P>
concept HasKernels = requires {
  typename P::Kernel;
};
template <class P>
concept HasComms = requires {
  typename P::Comm;
};

template <class M>
concept MemoryLike = has::bytes<M> &&(has::address<M> || !named::address<M>);

template <class S>
concept StreamLike = has::copy<S> && has::fill<S> && has::record<S> && has::wait<S> && has::completed<S> &&
    has::sync<S> && has::finish<S>;

template <class K, class S>
concept KernelLike = has::info<K> && has::launch<K, S>;

template <class C, class S>
concept CommLike =
    has::comm_limits<C> && has::submit<C, S> && has::abort<C> && has::health<C> && has::comm_finish<C>;

template <class D, class M, class S>
concept DeviceLike = has::limits<D> && has::memory_info<D> && has::allocate<D, M> && has::create_stream<D, S>;

template <class P>
concept PluginLike = requires {
  typename P::Device;
  typename P::Memory;
  typename P::Stream;
}
&&has::device_count<P>&& has::describe<P>&& has::open<P>;

}  // namespace tenon::author
