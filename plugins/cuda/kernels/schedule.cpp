// SPDX-License-Identifier: Apache-2.0
// schedule.cpp: which kernel computes what, and in which order.
#include "schedule.hpp"

#include <algorithm>
#include <set>

namespace tenon::cuda {

namespace {

// The reductions that a tensor is made of, without looking through them, and how.
struct Roots {
  std::set<uint32_t> reductions{};
  bool plain = true;  // elementwise all the way, over dims that never change
};

class Scheduler {
 public:
  explicit Scheduler(const FragmentView& fragment)
      : fragment_(fragment), roots_(fragment.tensors().size()), level_(fragment.nodes().size()) {}

  Schedule run() {
    find_homes();
    for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) visit(n);
    place_outputs();
    std::ranges::stable_sort(groups_, {}, &Leveled::level);
    for (Leveled& one : groups_) {
      std::erase_if(one.group.stores, [&](uint32_t t) { return fragment_.tensor(t).elements() == 0; });
      if (!one.group.stores.empty()) out_.groups.push_back(std::move(one.group));
    }
    return std::move(out_);
  }

 private:
  struct Leveled {
    uint32_t level = 0;  // kernels of one level need nothing of each other
    Group group{};
  };
  static constexpr uint32_t last = UINT32_MAX;

  void find_homes() {
    out_.homes.resize(fragment_.tensors().size());
    out_.producers.assign(fragment_.tensors().size(), TN_ABSENT);
    const auto inputs = static_cast<uint32_t>(fragment_.inputs().size());
    for (uint32_t i = static_cast<uint32_t>(fragment_.outputs().size()); i-- > 0;)
      out_.homes[fragment_.outputs()[i]] = {.kind = Home::Kind::output, .binding = inputs + i};
    for (uint32_t t = 0; t < out_.homes.size(); ++t) {
      if (fragment_.tensor(t).is_constant())
        out_.homes[t] = {.kind = Home::Kind::constant, .read_only = true};
    }
    for (uint32_t i = inputs; i-- > 0;) {
      const bool shared =
          std::ranges::any_of(fragment_.aliases(), [&](const tn_alias& pair) { return pair.input == i; });
      out_.homes[fragment_.inputs()[i]] = {.kind = Home::Kind::input, .binding = i, .read_only = !shared};
    }
  }

  void visit(uint32_t n) {
    const tn_node& node = fragment_.nodes()[n];
    const uint32_t made = node.outputs[0];
    out_.producers[made] = n;
    Roots roots;
    const bool plain = is_elementwise(node.op);
    for (uint32_t i = 0; i < node.input_count; ++i) {
      const Roots& of = roots_[node.inputs[i]];
      roots.reductions.insert(of.reductions.begin(), of.reductions.end());
      const bool same = author::same_dims(fragment_.tensor(node.inputs[i]), fragment_.tensor(made));
      roots.plain = roots.plain && (of.reductions.empty() || (of.plain && plain && same));
    }
    if (is_reduction(node.op)) {
      for (const uint32_t below : roots.reductions) {
        level_[n] = std::max(level_[n], level_[below] + 1);
        keep(below);
      }
      roots = {.reductions = {n}, .plain = true};
      join_group(n);
    }
    roots_[made] = std::move(roots);
  }

  // Into a kernel that folds the same dims in the same way, or one of its own.
  void join_group(uint32_t n) {
    const tn_node& node = fragment_.nodes()[n];
    for (Leveled& one : groups_) {
      const tn_node& first = fragment_.nodes()[one.group.reductions.front()];
      const bool alike =
          one.level == level_[n] && one.group.reductions.size() < 4 &&
          author::same_dims(fragment_.tensor(first.inputs[0]), fragment_.tensor(node.inputs[0])) &&
          folded_dims(fragment_, first) == folded_dims(fragment_, node);
      if (!alike) continue;
      one.group.reductions.push_back(n);
      return;
    }
    groups_.push_back({.level = level_[n], .group = {.reductions = {n}, .stores = {}}});
  }

  Leveled& group_of(uint32_t reduction) {
    return *std::ranges::find_if(groups_, [&](const Leveled& one) {
      return std::ranges::find(one.group.reductions, reduction) != one.group.reductions.end();
    });
  }

  // The reduced tensor goes to memory.
  void keep(uint32_t reduction) {
    const uint32_t tensor = fragment_.nodes()[reduction].outputs[0];
    Home& home = out_.homes[tensor];
    if (home.kind == Home::Kind::none) {
      const TensorView view = fragment_.tensor(tensor);
      home = {.kind = Home::Kind::workspace,
              .offset = out_.reserve(author::dtype_bytes(view.dtype(), view.elements()))};
    }
    store(group_of(reduction).group, tensor);
  }

  static void store(Group& group, uint32_t tensor) {
    if (std::ranges::find(group.stores, tensor) == group.stores.end()) group.stores.push_back(tensor);
  }

  void place_outputs() {
    for (const uint32_t tensor : fragment_.outputs()) {
      const Roots& roots = roots_[tensor];
      if (roots.reductions.empty()) {
        place_elementwise(tensor);
        continue;
      }
      Leveled& first = group_of(*roots.reductions.begin());
      const bool together = std::ranges::all_of(roots.reductions, [&](uint32_t r) {
        return &group_of(r) == &first &&
               author::same_dims(fragment_.tensor(fragment_.nodes()[r].outputs[0]), fragment_.tensor(tensor));
      });
      if (roots.plain && together) {
        store(first.group, tensor);
        continue;
      }
      for (const uint32_t r : roots.reductions) keep(r);
      place_elementwise(tensor);
    }
  }

  void place_elementwise(uint32_t tensor) {
    for (Leveled& one : groups_) {
      if (one.level != last ||
          !author::same_dims(fragment_.tensor(one.group.stores.front()), fragment_.tensor(tensor)))
        continue;
      return store(one.group, tensor);
    }
    groups_.push_back({.level = last, .group = {.reductions = {}, .stores = {tensor}}});
  }

  const FragmentView& fragment_;
  std::vector<Roots> roots_;
  std::vector<uint32_t> level_;
  std::vector<Leveled> groups_{};
  Schedule out_{};
};

}  // namespace

uint64_t Schedule::reserve(uint64_t bytes) {
  const uint64_t at = workspace_bytes;
  workspace_bytes += (bytes + 255) / 256 * 256;
  return at;
}

std::vector<uint32_t> Schedule::bindings_of(const FragmentView& fragment, uint32_t tensor) const {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < fragment.outputs().size(); ++i) {
    if (fragment.outputs()[i] == tensor) out.push_back(static_cast<uint32_t>(fragment.inputs().size()) + i);
  }
  return out;
}

Schedule make_schedule(const FragmentView& fragment) { return Scheduler(fragment).run(); }

std::vector<bool> folded_dims(const FragmentView& fragment, const tn_node& node) {
  const auto rank = static_cast<int64_t>(fragment.tensor(node.inputs[0]).rank());
  std::vector<bool> out(static_cast<size_t>(rank));
  const std::span<const int64_t> axes = *author::attribute_i64s(node, "axes");
  for (const int64_t axis : axes) out[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  return out;
}

bool is_reduction(uint32_t op) noexcept { return author::op_row(op).family == "REDUCTION"; }

bool is_elementwise(uint32_t op) noexcept {
  const std::string_view family = author::op_row(op).family;
  return family == "UNARY" || family == "BINARY" || family == "TERNARY";
}

}  // namespace tenon::cuda
