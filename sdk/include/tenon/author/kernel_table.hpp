// SPDX-License-Identifier: Apache-2.0
// kernel_table.hpp: tn_kernel_api made from the author's Device and Kernel.
//
// Invariant: an author compiles only well-formed fragments, and launches only with as many bindings as the
// fragment says, each large enough, aligned and inside its memory, and with the workspace that `info` asked
// for.
#pragma once

#include <tenon/kernel.h>
#include <tenon/author/fragment_check.hpp>
#include <tenon/author/stream_table.hpp>

namespace tenon::author {

// What stands in an answer whose plugin gives no reason, where the ABI demands one.
inline constexpr const char* no_reason = "the plugin gives no reason";

template <class Plugin>
struct KernelTable {
  using Device = typename Plugin::Device;
  using Kernel = typename Plugin::Kernel;
  using Handle = KernelHandle<Kernel, Device>;
  using H = Handles<Plugin>;

  static int32_t supports(tn_device* device, const tn_fragment* fragment, tn_support* out,
                          tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || fragment == nullptr) return is_null("device or fragment");
      TN_TRY(check_out(out, "tn_support"));
      const Incoming<tn_fragment> asked(fragment);
      TN_TRY(check_fragment<Plugin>(*asked));
      auto answer = outgoing<tn_support>();
      TN_TRY(H::of(device).object->supports(*asked, answer));
      answer.reason[sizeof answer.reason - 1] = '\0';
      if (answer.verdict != TN_SUPPORT_NATIVE && answer.reason[0] == '\0') {
        set_text(answer.reason, no_reason);
      }
      write_out(answer, out);
      return {};
    });
  }

  static int32_t patterns(tn_device* device, tn_pattern_list* out, tn_error* error) noexcept {
    if (out != nullptr) *out = {};
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || out == nullptr) return is_null("device or patterns");
      *out = H::of(device).object->patterns();
      return {};
    });
  }

  static int32_t layouts(tn_device* device, tn_string_list* out, tn_error* error) noexcept {
    if (out != nullptr) *out = {};
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || out == nullptr) return is_null("device or names");
      *out = H::of(device).object->layouts();
      return {};
    });
  }

  static int32_t layout_bytes(tn_device* device, const tn_tensor* tensor, uint64_t* out,
                              tn_error* error) noexcept {
    if (out != nullptr) *out = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || tensor == nullptr || out == nullptr) return is_null("device, tensor or bytes");
      *out = TN_TRY(H::of(device).object->layout_bytes(*tensor));
      return {};
    });
  }

  static int32_t compile(tn_device* device, const tn_fragment* fragment, const tn_compile_options* options,
                         tn_kernel** out, tn_error* error) noexcept {
    if (out != nullptr) *out = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || fragment == nullptr || out == nullptr)
        return is_null("device, fragment or kernel");
      const Incoming<tn_fragment> asked(fragment);
      TN_TRY(check_fragment<Plugin>(*asked));
      auto defaults = outgoing<tn_compile_options>();
      defaults.workspace_limit = TN_COMPILE_NO_LIMIT;
      const Incoming<tn_compile_options> wanted(options != nullptr ? options : &defaults);
      TN_TRY(check_links<Plugin>(wanted->next, "tn_compile_options"));
      auto& parent = H::of(device);
      auto made = TN_TRY(parent.object->compile(*asked, *wanted));
      *out = TN_TRY(wrap_kernel(parent, *asked, std::move(made)));
      return {};
    });
  }

  static int32_t info(tn_kernel* kernel, tn_kernel_info* out, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (kernel == nullptr) return is_null("kernel");
      TN_TRY(check_out(out, "tn_kernel_info"));
      auto full = outgoing<tn_kernel_info>();
      full.workspace_alignment = TN_MEMORY_ALIGNMENT;
      H::of(kernel).object->info(full);
      write_out(full, out);
      return {};
    });
  }

  static int32_t launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t binding_count,
                        const tn_span* workspace, tn_error* error) noexcept {
    if (!launch_is_plain(kernel, stream, bindings, binding_count, workspace)) [[unlikely]]
      return launch_slowly(kernel, stream, bindings, binding_count, workspace, error);
    return called<Plugin>(error, [&] {
      return H::of(kernel).object->launch(*H::of(stream).object, {bindings, binding_count},
                                          or_nothing(workspace));
    });
  }

  static int32_t destroy(tn_kernel* kernel, tn_error* error) noexcept {
    return farewell<Plugin>(error, [&]() -> Status {
      if (kernel == nullptr) return is_null("kernel");
      const Leaving leaving{H::of(kernel).device->children.kernels};
      delete &H::of(kernel);
      return {};
    });
  }

  static int32_t save(tn_kernel* kernel, void* data, uint64_t capacity, uint64_t* bytes,
                      tn_error* error) noexcept {
    if (bytes != nullptr) *bytes = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      if (kernel == nullptr || bytes == nullptr) return is_null("kernel or bytes");
      auto* place = static_cast<std::byte*>(data);
      *bytes =
          TN_TRY(H::of(kernel).object->save({place, place != nullptr ? static_cast<size_t>(capacity) : 0}));
      return {};
    });
  }

  static int32_t load(tn_device* device, const tn_fragment* fragment, const void* data, uint64_t bytes,
                      tn_kernel** out, tn_error* error) noexcept {
    if (out != nullptr) *out = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr || fragment == nullptr || out == nullptr)
        return is_null("device, fragment or kernel");
      if (data == nullptr && bytes != 0) return is_null("data");
      const Incoming<tn_fragment> asked(fragment);
      TN_TRY(check_fragment<Plugin>(*asked));
      auto& parent = H::of(device);
      const std::span<const std::byte> saved(static_cast<const std::byte*>(data), static_cast<size_t>(bytes));
      auto made = TN_TRY(parent.object->load(*asked, saved));
      *out = TN_TRY(wrap_kernel(parent, *asked, std::move(made)));
      return {};
    });
  }

  static constexpr auto patterns_slot() -> decltype(tn_kernel_api::patterns) {
    if constexpr (has::patterns<Device>) return &patterns;
    return nullptr;
  }
  static constexpr auto layouts_slot() -> decltype(tn_kernel_api::layouts) {
    if constexpr (has::layouts<Device>) return &layouts;
    return nullptr;
  }
  static constexpr auto layout_bytes_slot() -> decltype(tn_kernel_api::layout_bytes) {
    if constexpr (has::layout_bytes<Device>) return &layout_bytes;
    return nullptr;
  }
  static constexpr auto save_slot() -> decltype(tn_kernel_api::save) {
    if constexpr (has::save<Kernel>) return &save;
    return nullptr;
  }
  static constexpr auto load_slot() -> decltype(tn_kernel_api::load) {
    if constexpr (has::load<Device, Kernel>) return &load;
    return nullptr;
  }

  static constexpr tn_kernel_api table{
      .header = {sizeof(tn_kernel_api), TN_ABI_MAJOR, TN_ABI_MINOR},
      .supports = &supports,
      .patterns = patterns_slot(),
      .layouts = layouts_slot(),
      .layout_bytes = layout_bytes_slot(),
      .compile = &compile,
      .info = &info,
      .launch = &launch,
      .destroy = &destroy,
      .save = save_slot(),
      .load = load_slot(),
  };

 private:
  static Result<tn_kernel*> wrap_kernel(typename H::Device& parent, const tn_fragment& f,
                                        std::unique_ptr<Kernel> kernel) {
    if (kernel == nullptr) return Status(TN_INTERNAL, "Device::compile or load succeeded without a kernel");
    auto stated = outgoing<tn_kernel_info>();
    stated.workspace_alignment = TN_MEMORY_ALIGNMENT;
    kernel->info(stated);
    if (!std::has_single_bit(stated.workspace_alignment)) {
      return Status(TN_INTERNAL, text("Kernel::info states workspace alignment ", stated.workspace_alignment,
                                      ": it must be a power of two"));
    }
    auto handle = std::make_unique<Handle>();
    handle->rules = TN_TRY(binding_rules(*parent.object, f));
    handle->rule_count = handle->rules.size();
    handle->workspace = {stated.workspace_bytes, stated.workspace_alignment - 1};
    handle->device = &parent;
    handle->object = kernel.get();
    handle->owner = std::move(kernel);
    parent.children.kernels.fetch_add(1);
    return reinterpret_cast<tn_kernel*>(handle.release());
  }

  static Result<std::vector<BindingRule>> binding_rules(Device& device, const tn_fragment& f) {
    const FragmentView view(f);
    std::vector<BindingRule> rules;
    rules.reserve(view.binding_count());
    for (uint32_t i = 0; i < view.binding_count(); ++i) {
      const TensorView tensor = view.binding(i);
      const uint64_t element = std::max<uint64_t>(dtype_bits(tensor.dtype()) / 8, 1);
      const uint64_t alignment = tensor.raw().alignment != 0 ? tensor.raw().alignment : element;
      const uint64_t bytes = TN_TRY(needed_bytes(device, tensor));
      rules.push_back({bytes, alignment - 1});
    }
    return rules;
  }

  // A private layout that the device does not size is the author's to check.
  static Result<uint64_t> needed_bytes([[maybe_unused]] Device& device, TensorView tensor) {
    if (tensor.raw().layout == 0) return tensor.extent_bytes();
    if constexpr (has::layout_bytes<Device>) {
      return device.layout_bytes(tensor.raw());
    } else {
      return uint64_t{0};
    }
  }

  static const tn_span& or_nothing(const tn_span* workspace) noexcept {
    static constexpr tn_span nothing{};
    return workspace != nullptr ? *workspace : nothing;
  }

  // Every binding is an ordinary range of a memory, large enough and aligned.
  [[gnu::always_inline]] static inline bool launch_is_plain(tn_kernel* kernel, tn_stream* stream,
                                                            const tn_span* bindings, uint32_t count,
                                                            const tn_span* workspace) noexcept {
    if (forked_child || kernel == nullptr || stream == nullptr) return false;
    const Handle& handle = H::of(kernel);
    if (count != handle.rule_count || (bindings == nullptr && count != 0)) return false;
    if (handle.workspace.bytes != 0 && (workspace == nullptr || !is_plain(*workspace, handle.workspace)))
      return false;
    for (uint32_t i = 0; i < count; ++i) {
      if (!is_plain(bindings[i], handle.rules[i])) return false;
    }
    return true;
  }

  [[gnu::always_inline]] static inline bool is_plain(const tn_span& span, const BindingRule& rule) noexcept {
    return inside_memory<Plugin>(span) && span.bytes >= rule.bytes &&
           (span.offset & rule.alignment_mask) == 0;
  }

  // Every other launch: addresses, empty bindings, or a mistake to be told.
  [[gnu::noinline]] static int32_t launch_slowly(tn_kernel* kernel, tn_stream* stream,
                                                 const tn_span* bindings, uint32_t count,
                                                 const tn_span* workspace, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (kernel == nullptr || stream == nullptr || (bindings == nullptr && count != 0)) {
        return is_null("kernel, stream or bindings");
      }
      Handle& handle = H::of(kernel);
      if (count != handle.rule_count) {
        return Status(TN_INVALID, text("launch has ", count, " bindings; the fragment has ",
                                       handle.rule_count, " inputs and outputs"));
      }
      for (uint32_t i = 0; i < count; ++i) TN_TRY(check_binding(bindings[i], handle.rules[i], "binding", i));
      if (handle.workspace.bytes != 0)
        TN_TRY(check_binding(or_nothing(workspace), handle.workspace, "workspace", 0));
      return handle.object->launch(*H::of(stream).object, {bindings, count}, or_nothing(workspace));
    });
  }

  static Status check_binding(const tn_span& span, const BindingRule& rule, const char* what,
                              uint32_t index) {
    if (!span_fits<Plugin>(span, Spaces::device)) {
      return explain_span<Plugin>(span, Spaces::device, text(what, " ", index));
    }
    if (span.bytes < rule.bytes) {
      return Status(TN_INVALID, text(what, " ", index, " has ", span.bytes, " bytes and needs ", rule.bytes));
    }
    if (span.bytes == 0 || (span.offset & rule.alignment_mask) == 0) return {};
    return Status(TN_INVALID, text(what, " ", index, " starts at ", span.offset,
                                   ", which is no multiple of its alignment of ", rule.alignment_mask + 1));
  }
};

}  // namespace tenon::author
