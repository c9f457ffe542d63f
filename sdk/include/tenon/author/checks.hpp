// SPDX-License-Identifier: Apache-2.0
// checks.hpp: the concepts again as sentences, so that the compiler names the one method that is missing or
// misspelt.
//
// Invariant: `complete<Plugin>()` fails to compile with one readable sentence per fault, before any table is
// built.
#pragma once

#include <tenon/author/concepts.hpp>
#include <tenon/author/instance.hpp>

namespace tenon::author {

// An optional method is either absent or exact; a near miss would silently leave its slot empty.
template <class S>
consteval bool check_stream() {
  static_assert(has::copy<S>, "Stream needs: Status copy(const tn_span& dst, const tn_span& src)");
  static_assert(has::fill<S>,
                "Stream needs: Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes)");
  static_assert(has::record<S>, "Stream needs: Result<uint64_t> record(uint32_t flags)");
  static_assert(has::wait<S>, "Stream needs: Status wait(Stream& other, uint64_t value)");
  static_assert(has::completed<S>, "Stream needs: Result<uint64_t> completed()");
  static_assert(has::sync<S>, "Stream needs: Status sync(uint64_t value, uint64_t timeout_ns)");
  static_assert(has::finish<S>, "Stream needs: Status finish(uint32_t mode)");
  static_assert(has::copy_strided<S> || !named::copy_strided<S>,
                "Stream may have: Status copy_strided(const tn_span& dst, const tn_span& src, const "
                "tn_copy_shape& shape)");
  static_assert(has::timestamp<S> || !named::timestamp<S>,
                "Stream may have: Result<uint64_t> timestamp(uint64_t value)");
  static_assert(has::host_call<S> || !named::host_call<S>,
                "Stream may have: Status host_call(void (*call)(void*), void* argument)");
  static_assert(has::promise<S> || !named::promise<S>, "Stream may have: Result<uint64_t> promise()");
  static_assert(has::signal<S> || !named::signal<S>,
                "Stream may have: Status signal(uint64_t value, int32_t code)");
  static_assert(has::promise<S> == has::signal<S>, "Stream has promise and signal together, or neither");
  return StreamLike<S>;
}

template <class M>
consteval bool check_memory() {
  static_assert(has::bytes<M>, "Memory needs: uint64_t bytes() const");
  static_assert(has::address<M> || !named::address<M>, "Memory may have: Result<uint64_t> address()");
  return MemoryLike<M>;
}

template <class D, class M, class S>
consteval bool check_device() {
  static_assert(has::limits<D>, "Device needs: void limits(tn_device_limits& out) const");
  static_assert(has::memory_info<D>, "Device needs: Status memory_info(tn_memory_info& out)");
  static_assert(has::allocate<D, M>,
                "Device needs: Result<std::unique_ptr<Memory>> allocate(uint32_t kind, uint64_t bytes, "
                "uint64_t alignment)");
  static_assert(
      has::create_stream<D, S>,
      "Device needs: Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& options)");
  static_assert(has::peer<D> || !named::peer<D>, "Device may have: Result<bool> peer(Device& other)");
  return DeviceLike<D, M, S>;
}

template <class D, class K, class S>
consteval bool check_kernel() {
  static_assert(has::supports<D>,
                "Device needs, with Kernel: Status supports(const tn_fragment& f, tn_support& out)");
  static_assert(has::compile<D, K>,
                "Device needs, with Kernel: Result<std::unique_ptr<Kernel>> "
                "compile(const tn_fragment& f, const tn_compile_options& options)");
  static_assert(has::info<K>, "Kernel needs: void info(tn_kernel_info& out) const");
  static_assert(has::launch<K, S>,
                "Kernel needs: Status launch(Stream& stream, std::span<const tn_span> bindings, const "
                "tn_span& workspace)");
  static_assert(has::patterns<D> || !named::patterns<D>, "Device may have: tn_pattern_list patterns()");
  static_assert(has::layouts<D> || !named::layouts<D>, "Device may have: tn_string_list layouts()");
  static_assert(has::layout_bytes<D> || !named::layout_bytes<D>,
                "Device may have: Result<uint64_t> layout_bytes(const tn_tensor& tensor)");
  static_assert(has::load<D, K> || !named::load<D>,
                "Device may have: Result<std::unique_ptr<Kernel>> load(const tn_fragment& f, std::span<const "
                "std::byte> saved)");
  static_assert(has::save<K> || !named::save<K>,
                "Kernel may have: Result<uint64_t> save(std::span<std::byte> out)");
  static_assert(has::save<K> == has::load<D, K>,
                "Kernel::save and Device::load come together, or not at all");
  return has::supports<D> && has::compile<D, K> && KernelLike<K, S>;
}

template <class D, class C, class S>
consteval bool check_comm() {
  static_assert(has::comm_id_bytes<D>, "Device needs, with Comm: Result<uint64_t> comm_id_bytes()");
  static_assert(has::make_comm_id<D>,
                "Device needs, with Comm: Status make_comm_id(std::span<std::byte> id)");
  static_assert(
      has::create_comm<D, C>,
      "Device needs, with Comm: Result<std::unique_ptr<Comm>> create_comm(uint32_t rank, uint32_t size, "
      "std::span<const std::byte> id, const tn_comm_options& options)");
  static_assert(has::comm_limits<C>, "Comm needs: void limits(tn_comm_limits& out) const");
  static_assert(has::submit<C, S>,
                "Comm needs: Status submit(Stream& stream, std::span<const tn_comm_op> ops)");
  static_assert(has::abort<C>, "Comm needs: Status abort()");
  static_assert(has::health<C>, "Comm needs: Status health()");
  static_assert(has::comm_finish<C>, "Comm needs: Status finish(uint64_t timeout_ns)");
  static_assert(has::split<C> || !named::split<C>,
                "Comm may have: Result<std::unique_ptr<Comm>> split(int32_t color, int32_t key, const "
                "tn_comm_options& options)");
  return has::comm_id_bytes<D> && has::make_comm_id<D> && has::create_comm<D, C> && CommLike<C, S>;
}

template <class P>
consteval bool check_plugin() {
  static_assert(
      requires {
        { P::identity } -> std::same_as<const Identity&>;
      },
      "Plugin needs: static constexpr tenon::author::Identity identity{.name = …, .vendor = …, .version = "
      "…}");
  static_assert(
      requires {
        typename P::Device;
        typename P::Memory;
        typename P::Stream;
      },
      "Plugin needs: using Device = …; using Memory = …; using Stream = …");
  static_assert(std::constructible_from<P, class Host> || std::default_initializable<P>,
                "Plugin needs: explicit Plugin(tenon::author::Host host), or a default constructor");
  static_assert(has::device_count<P>, "Plugin needs: Result<uint32_t> device_count()");
  static_assert(has::describe<P>, "Plugin needs: Status describe(uint32_t ordinal, tn_device_info& out)");
  static_assert(has::open<P>,
                "Plugin needs: Result<std::unique_ptr<Device>> open(uint32_t ordinal, const "
                "tn_device_options& options)");
  static_assert(has::extension<P> || !named::extension<P>,
                "Plugin may have: const void* extension(std::string_view id)");
  static_assert(has::quiesce<P> || !named::quiesce<P>, "Plugin may have: Status quiesce()");
  static_assert(has::features<P> || !named::features<P>, "Plugin may have: uint64_t features() const");
  return PluginLike<P>;
}

// True when every class of the plugin is as the framework needs it.
template <class P>
consteval bool complete() {
  if constexpr (check_plugin<P>()) {
    using D = typename P::Device;
    using M = typename P::Memory;
    using S = typename P::Stream;
    static_assert(good_name(P::identity.name),
                  "Plugin::identity.name: lower-case letters, digits and _, under 20 of them");
    constexpr bool memory = check_memory<M>(), stream = check_stream<S>(), device = check_device<D, M, S>();
    bool kernel = true, comm = true;
    if constexpr (HasKernels<P>) kernel = check_kernel<D, typename P::Kernel, S>();
    if constexpr (HasComms<P>) comm = check_comm<D, typename P::Comm, S>();
    return memory && stream && device && kernel && comm;
  } else {
    return false;
  }
}

}  // namespace tenon::author
