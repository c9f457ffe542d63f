// SPDX-License-Identifier: Apache-2.0
// device.cpp: limits, memory, and what a device makes.
#include "device.hpp"

#include "kernels/rules.hpp"

#include <tenon/author/aliases.hpp>
#include <tenon/author/support.hpp>
#include <tenon/author/text.hpp>

#include <cstring>

namespace tenon::sim {

using author::text;

void Device::limits(tn_device_limits& out) const {
  const Profile& p = profile();
  out.alignment = p.alignment;
  out.max_alloc_bytes = p.memory_bytes();
  out.max_streams = static_cast<uint32_t>(p.max_streams);
  out.max_pending_records = static_cast<uint32_t>(p.max_records);
  out.max_bindings = static_cast<uint32_t>(p.max_bindings);
  out.priorities = static_cast<uint32_t>(p.priorities);
  out.copy_bytes_per_second = static_cast<double>(p.link_mib_per_s << 20);
}

Status Device::memory_info(tn_memory_info& out) {
  const Bound bound(*card_);
  TN_TRY(card_->alive());
  out.total_bytes = card_->arena().total();
  out.used_here_bytes = card_->arena().used();
  out.free_bytes = out.total_bytes - out.used_here_bytes;
  return {};
}

Result<std::unique_ptr<Memory>> Device::allocate(uint32_t kind, uint64_t bytes, uint64_t alignment) {
  if (kind == TN_MEMORY_HOST && !profile().host_memory)
    return Status(TN_UNSUPPORTED, text("profile '", profile().name, "' has no pinned host memory"));
  if (kind == TN_MEMORY_MANAGED && !profile().managed_memory)
    return Status(TN_UNSUPPORTED, text("profile '", profile().name, "' has no managed memory"));
  const Bound bound(*card_);
  TN_TRY(card_->before_alloc(bytes));
  const Arena::Block block = TN_TRY(card_->arena().take(bytes, alignment, kind != TN_MEMORY_DEVICE));
  return std::make_unique<Memory>(card_, block, bytes);
}

Result<std::unique_ptr<Stream>> Device::create_stream(const tn_stream_options& /*options*/) {
  const Bound bound(*card_);
  TN_TRY(card_->alive());
  return std::make_unique<Stream>(card_, scheduler_);
}

Result<bool> Device::peer(Device& other) { return card_ == other.card_ || profile().peer; }

namespace {

// Whether both ends of a pair in place are one span, element for element.
bool same_places(author::TensorView a, author::TensorView b) {
  if (a.dtype() != b.dtype() || a.raw().layout != b.raw().layout || !author::same_dims(a, b)) return false;
  for (uint32_t i = 0; i < a.rank(); ++i) {
    if (a.dims()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  }
  return true;
}

// A result arrives when all nodes have run, so any pair of that kind can be honoured.
author::Honoured honoured_aliases(const author::FragmentView& view) {
  return author::honoured_of(view.aliases(), [&](const tn_alias& pair) {
    return same_places(view.input(pair.input), view.output(pair.output));
  });
}

}  // namespace

Status Device::supports(const tn_fragment& fragment, tn_support& out) {
  const author::FragmentView view(fragment);
  const Status found = check_fragment(view, profile());
  if (!found.ok() && found.code() != TN_UNSUPPORTED) return Status(found.error());
  if (!found.ok()) return author::refuse(out, found.message());
  author::honour(out, honoured_aliases(view));
  return author::accept(out, 0, Kernel::workspace_bytes(Program(view), profile()));
}

Result<std::unique_ptr<Kernel>> Device::compile(const tn_fragment& fragment,
                                                const tn_compile_options& options) {
  const Bound bound(*card_);
  TN_TRY(card_->alive());
  const author::FragmentView view(fragment);
  TN_TRY(check_fragment(view, profile()));
  auto kernel = std::make_unique<Kernel>(fragment, profile());
  if (kernel->workspace() <= options.workspace_limit) return kernel;
  return Status(TN_UNSUPPORTED, text("needs ", kernel->workspace(), " bytes of workspace; the limit is ",
                                     options.workspace_limit));
}

Result<std::unique_ptr<Kernel>> Device::load(const tn_fragment& fragment, std::span<const std::byte> saved) {
  const Saved expected(profile(), fragment);
  if (saved.size() == sizeof expected && std::memcmp(saved.data(), &expected, sizeof expected) == 0) {
    const tn_compile_options options{.size = sizeof options, .workspace_limit = TN_COMPILE_NO_LIMIT};
    return compile(fragment, options);
  }
  return Status(TN_MISMATCH, text("these ", saved.size(), " bytes were not saved by '", expected.maker,
                                  "' for this fragment: compile it anew"));
}

tn_string_list Device::layouts() {
  static constexpr const char* names[] = {"NZ"};
  return {names, profile().private_layout.empty() ? 0u : 1u};
}

Result<uint64_t> Device::layout_bytes(const tn_tensor& tensor) {
  const uint32_t known = profile().private_layout.empty() ? 0 : 1;
  if (tensor.layout <= known) return Shape(author::TensorView(tensor)).bytes();
  return Status(TN_INVALID, text("layout ", tensor.layout, " does not exist; profile '", profile().name,
                                 "' has ", known));
}

Status Device::make_comm_id(std::span<std::byte> id) {
  const Bound bound(*card_);
  TN_TRY(card_->alive());
  const comm::Place place = TN_TRY(fabric_.open_hub());
  place.write(id);
  return {};
}

Result<std::unique_ptr<Comm>> Device::create_comm(uint32_t rank, uint32_t size, std::span<const std::byte> id,
                                                  const tn_comm_options& options) {
  const Bound bound(*card_);
  TN_TRY(card_->alive());
  const comm::Place place = TN_TRY(comm::Place::read(id));
  return Comm::create(fabric_, scheduler_,
                      {.place = place,
                       .rank = rank,
                       .size = size,
                       .timeout_ns = options.timeout_ns,
                       .name = options.name != nullptr ? options.name : "unnamed"},
                      (options.flags & TN_COMM_NON_BLOCKING) != 0);
}

}  // namespace tenon::sim
