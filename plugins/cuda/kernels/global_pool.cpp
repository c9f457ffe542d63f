// SPDX-License-Identifier: Apache-2.0
// global_pool.cpp: global_pool as what it is, a mean over the last two dims, so groups fuse it with what is around it.
//
// Invariant: but for those nodes the fragment is the caller's own, tensor by tensor.
#include "families.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace tenon::cuda {

namespace {

constexpr int64_t image_axes[] = {2, 3};
constexpr tn_attribute mean_attributes[] = {{.name = "axes",
                                             .kind = TN_ATTRIBUTE_I64S,
                                             .reserved = 0,
                                             .count = std::size(image_axes),
                                             .i64 = 0,
                                             .f64 = 0,
                                             .data = image_axes},
                                            {.name = "keepdims",
                                             .kind = TN_ATTRIBUTE_I64,
                                             .reserved = 0,
                                             .count = 0,
                                             .i64 = 1,
                                             .f64 = 0,
                                             .data = nullptr}};

class WithMeans {
 public:
  explicit WithMeans(const FragmentView& fragment)
      : nodes_(fragment.nodes().begin(), fragment.nodes().end()), raw_(fragment.raw()) {
    for (tn_node& node : nodes_) {
      if (node.op != TN_OP_global_pool) continue;
      node.op = TN_OP_mean;
      node.version = 1;
      node.attributes = mean_attributes;
      node.attribute_count = std::size(mean_attributes);
    }
    raw_.nodes = nodes_.data();
  }
  WithMeans(const WithMeans&) = delete;
  WithMeans& operator=(const WithMeans&) = delete;

  FragmentView view() const { return FragmentView(raw_); }

 private:
  std::vector<tn_node> nodes_;
  tn_fragment raw_;
};

}  // namespace

bool takes_global_pool(const FragmentView& fragment) {
  return std::ranges::any_of(fragment.nodes(),
                             [](const tn_node& node) { return node.op == TN_OP_global_pool; });
}

Status check_global_pool(const FragmentView& fragment) { return check_groups(WithMeans(fragment).view()); }

Result<Program> write_global_pool(const FragmentView& fragment, const Target& target) {
  const WithMeans means(fragment);
  return write_groups(means.view(), target);
}

uint64_t workspace_of_global_pool(const FragmentView& fragment, const Target& target) {
  return workspace_of_groups(WithMeans(fragment).view(), target);
}

author::Honoured honoured_by_global_pool(const FragmentView& fragment) {
  return honoured_by_groups(WithMeans(fragment).view());
}

}  // namespace tenon::cuda
