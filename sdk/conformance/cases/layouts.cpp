// SPDX-License-Identifier: Apache-2.0
// layouts.cpp: private layouts: their names, their sizes, the way in and the way back.
//
// A layout is the plugin's own, so nothing is asked about where elements lie; what goes in must come out, within the bytes
// that layout_bytes says. Invariant: a layout that is published and takes no tensor fails.
#include "conformance/case.hpp"
#include "conformance/claims.hpp"
#include "conformance/guard.hpp"
#include "conformance/ops/kernel.hpp"
#include "conformance/ops/workspace.hpp"

#include <set>

namespace tenon::conform {

namespace {

// A layout as the plugin publishes it.
struct Layout {
  uint32_t number = 0;  // tn_tensor.layout
  std::string name{};
};

Result<std::vector<Layout>> published_layouts(Context& t, const Device& device) {
  if (device.api().kernel.layouts == nullptr) return t.skip("the plugin publishes no private layouts");
  tn_string_list list{};
  TN_TRY(t.call("kernel.layouts",
                [&](tn_error* e) { return device.api().kernel.layouts(device.handle(), &list, e); }));
  if (list.count == 0) return t.skip("the plugin publishes no private layouts");
  std::vector<Layout> out;
  std::set<std::string> names;
  for (uint64_t i = 0; i < list.count; ++i) {
    const char* const name = list.items[i];
    TN_TRY(t.require(name != nullptr && name[0] != '\0', "layout ", i + 1, " has no name"));
    t.check(names.insert(name).second, "two layouts are called '", name, "'");
    out.push_back({.number = static_cast<uint32_t>(i + 1), .name = name});
  }
  return out;
}

// One tensor's way into a layout, or out of it, or both, as a fragment.
class Conversion {
 public:
  enum class Way { in, out, both };
  Conversion(Way way, const Layout& layout, uint32_t dtype, const std::vector<int64_t>& dims)
      : builder_(words("convert_layout ", layout.name)) {
    const uint32_t from = builder_.input(dtype, dims),
                   inner = way == Way::both ? builder_.tensor(dtype, dims) : from,
                   to = builder_.output(dtype, dims);
    if (way != Way::out)
      builder_.node(TN_OP_convert_layout, {from}, {way == Way::both ? inner : to})
          .string("layout", layout.name);
    if (way != Way::in) builder_.node(TN_OP_convert_layout, {inner}, {to}).string("layout", "");
    fragment_ = builder_.fragment();
    tensors_.assign(fragment_.tensors, fragment_.tensors + fragment_.tensor_count);
    tensors_[way == Way::in ? to : inner].layout = layout.number;
    fragment_.tensors = tensors_.data();
    set_identity(fragment_);
  }
  const tn_fragment& fragment() const noexcept { return fragment_; }

 private:
  author::FragmentBuilder builder_;
  std::vector<tn_tensor> tensors_{};
  tn_fragment fragment_{};
};

// Runs it, where the plugin takes it; false and a reason where it does not.
Result<bool> convert(Context& t, const Device& device, const Stream& stream, const Conversion& conversion,
                     const Guarded& from, const Guarded& to, std::string* reason) {
  const tn_support said = TN_TRY(supports(t, device, conversion.fragment()));
  if (said.verdict == TN_SUPPORT_NO) {
    *reason = said.reason;
    return false;
  }
  const Kernel kernel = TN_TRY(compile(t, device, conversion.fragment()));
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Workspace workspace = TN_TRY(Workspace::make(device, stream, info));
  const tn_span bindings[] = {from.span(), to.span()};
  TN_TRY(kernel.launch(stream, bindings, workspace.span()));
  TN_TRY(stream.finish());
  TN_TRY(workspace.check(t, stream));
  return true;
}

Result<uint64_t> bytes_in(Context& t, const Device& device, const Layout& layout, uint32_t dtype,
                          const std::vector<int64_t>& dims) {
  tn_tensor tensor{};
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(dims.size());
  tensor.dims = dims.data();
  tensor.layout = layout.number;
  uint64_t bytes = 0;
  TN_TRY(t.call("kernel.layout_bytes", [&](tn_error* e) {
    return device.api().kernel.layout_bytes(device.handle(), &tensor, &bytes, e);
  }));
  return bytes;
}

// In by one kernel and back by another, and both ways in one; whether any of it is taken.
Result<bool> there_and_back(Context& t, const Device& device, const Stream& stream, const Layout& layout,
                            uint32_t dtype, const std::vector<int64_t>& dims, std::string* reason) {
  using Way = Conversion::Way;
  const uint64_t dense = element_count(dims) * element_bytes(dtype);
  const uint64_t bytes = TN_TRY(bytes_in(t, device, layout, dtype, dims));
  const std::string who = words(author::dtype_name(dtype), told(dims), " in layout '", layout.name, "'");
  TN_TRY(
      t.require(bytes >= dense, who, " takes ", bytes, " bytes by layout_bytes, and its elements ", dense));
  const Bytes sent = random_bytes(t.random(), dense);
  const Guarded from = TN_TRY(Guarded::make(device, stream, dense, Guarded::skew_to(TN_MEMORY_ALIGNMENT)));
  const Guarded held = TN_TRY(Guarded::make(device, stream, bytes, Guarded::skew_to(TN_MEMORY_ALIGNMENT)));
  const Guarded back = TN_TRY(Guarded::make(device, stream, dense, Guarded::skew_to(TN_MEMORY_ALIGNMENT)));
  TN_TRY(upload(stream, from.span(), sent));
  bool any = false;
  if (TN_TRY(convert(t, device, stream, {Way::in, layout, dtype, dims}, from, held, reason))) {
    static_cast<void>(TN_TRY(held.read(t, stream, who)));
    any = TN_TRY(convert(t, device, stream, {Way::out, layout, dtype, dims}, held, back, reason));
    if (any) TN_TRY(back.expect(t, stream, sent, words(who, ", brought back by another kernel")));
  }
  const Guarded whole = TN_TRY(Guarded::make(device, stream, dense, Guarded::skew_to(TN_MEMORY_ALIGNMENT)));
  if (TN_TRY(convert(t, device, stream, {Way::both, layout, dtype, dims}, from, whole, reason))) {
    TN_TRY(whole.expect(t, stream, sent, words(who, ", there and back in one kernel")));
    any = true;
  }
  return any;
}

}  // namespace

static_assert(std::string_view(layouts_held_by) ==
              "layout: every private layout takes what is put in, and gives it back");

CONFORM_CASE(1, "layout: every private layout takes what is put in, and gives it back") {
  const Device& device = *TN_TRY(t.device());
  const std::vector<Layout> layouts = TN_TRY(published_layouts(t, device));
  TN_TRY(t.require(device.api().kernel.layout_bytes != nullptr,
                   "the plugin publishes private layouts, and has no layout_bytes to size them"));
  const Stream stream = TN_TRY(device.stream());
  static const std::vector<int64_t> shapes[] = {{16, 16}, {1, 1},     {3, 5},
                                                {17, 33}, {2, 7, 31}, {2, 3, 5, 18}};
  for (const Layout& layout : layouts) {
    size_t taken = 0;
    std::string reason;
    for (const auto& dims : shapes) {
      for (const uint32_t dtype : {uint32_t{TN_DTYPE_f32}, uint32_t{TN_DTYPE_f16}, uint32_t{TN_DTYPE_i8}})
        taken += TN_TRY(there_and_back(t, device, stream, layout, dtype, dims, &reason))
      ? 1 : 0;
    }
    t.check(taken > 0, "layout '", layout.name,
            "' is published, and no tensor goes there and back: ", reason);
  }
  return {};
}

CONFORM_CASE(1, "layout: one that is not published is refused") {
  const Device& device = *TN_TRY(t.device());
  const std::vector<Layout> layouts = TN_TRY(published_layouts(t, device));
  const Layout unknown{.number = static_cast<uint32_t>(layouts.size() + 1), .name = "nobody's"};
  t.check(!bytes_in(t, device, unknown, TN_DTYPE_f32, {16, 16}).ok(), "layout_bytes sizes layout ",
          unknown.number, ", and ", layouts.size(), " are published");
  const Conversion conversion(Conversion::Way::in, unknown, TN_DTYPE_f32, {16, 16});
  const auto said = supports(t, device, conversion.fragment());
  t.check(!said.ok() || said->verdict == TN_SUPPORT_NO, "kernel.supports takes a tensor in layout ",
          unknown.number, ", and ", layouts.size(), " are published");
  return {};
}

}  // namespace tenon::conform
