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

  Schedule run(Rows rows) {
    find_homes();
    for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) visit(n);
    if (rows != Rows::apart) merge_rows(rows == Rows::summed);
    for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) keep_below(n);
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
      for (const uint32_t below : roots.reductions) level_[n] = std::max(level_[n], level_[below] + 1);
      roots = {.reductions = {n}, .plain = true};
      join_group(n);
    }
    roots_[made] = std::move(roots);
  }

  // Whether two reductions fold the same dims in the same way.
  bool alike(uint32_t a, uint32_t b) const {
    const tn_node &first = fragment_.nodes()[a], &second = fragment_.nodes()[b];
    return author::same_dims(fragment_.tensor(first.inputs[0]), fragment_.tensor(second.inputs[0])) &&
           folded_dims(fragment_, first) == folded_dims(fragment_, second);
  }

  // Into a kernel that folds alike, or one of its own.
  void join_group(uint32_t n) {
    for (Leveled& one : groups_) {
      if (one.level != level_[n] || one.group.reductions.size() >= 4 ||
          !alike(one.group.reductions.front(), n))
        continue;
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

  static bool holds(const std::vector<uint32_t>& nodes, uint32_t n) {
    return std::ranges::find(nodes, n) != nodes.end();
  }
  // The reductions that fold as `first` does, those after others that need them.
  std::vector<uint32_t> alike_with(uint32_t first) const {
    std::vector<uint32_t> out;
    for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
      if (is_reduction(fragment_.nodes()[n].op) && alike(first, n)) out.push_back(n);
    }
    std::ranges::stable_sort(out, {}, [&](uint32_t n) { return level_[n]; });
    return out;
  }
  // Whether `rows` need no other reductions, and no others need them.
  bool stand_alone(const std::vector<uint32_t>& rows) const {
    for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
      const tn_node& node = fragment_.nodes()[n];
      if (!is_reduction(node.op)) continue;
      const bool inside = holds(rows, n);
      if (inside && node.op == TN_OP_argmax) return false;
      for (const uint32_t below : roots_[node.inputs[0]].reductions) {
        if (holds(rows, below) != inside) return false;
      }
    }
    return true;
  }
  // Whether `tensor` has the dims of the rows, and is made of what they fold.
  bool is_row_made(const std::vector<uint32_t>& rows, uint32_t tensor) const {
    const uint32_t folded = fragment_.nodes()[rows.front()].inputs[0];
    return author::same_dims(fragment_.tensor(folded), fragment_.tensor(tensor)) &&
           std::ranges::all_of(roots_[tensor].reductions, [&](uint32_t r) { return holds(rows, r); });
  }
  // Whether one of `rows` needs another, or an output needs what they fold and the rows again.
  bool read_again(const std::vector<uint32_t>& rows) const {
    return level_[rows.front()] != level_[rows.back()] ||
           std::ranges::any_of(fragment_.outputs(), [&](uint32_t tensor) {
             return !roots_[tensor].reductions.empty() && is_row_made(rows, tensor);
           });
  }

  // Sums over the rows of what needs no reduction go behind the kernel that keeps them.
  void find_columns(Group& rows, uint32_t level) {
    const tn_node& first = fragment_.nodes()[rows.reductions.front()];
    std::vector<bool> others = folded_dims(fragment_, first);
    others.flip();
    for (Leveled& one : groups_) {
      const auto sums = [&](uint32_t n) {
        const tn_node& node = fragment_.nodes()[n];
        return node.op == TN_OP_sum && folded_dims(fragment_, node) == others &&
               author::same_dims(fragment_.tensor(node.inputs[0]), fragment_.tensor(first.inputs[0])) &&
               roots_[node.inputs[0]].reductions.empty();
      };
      if (!rows.columns.empty() || !std::ranges::all_of(one.group.reductions, sums)) continue;
      rows.columns = one.group.reductions;
      one.level = level + 1;
    }
  }

  // Makes one kernel of the first reductions for which that saves a pass over their rows.
  void merge_rows(bool summed) {
    for (const Leveled& one : groups_) {
      const std::vector<uint32_t> rows = alike_with(one.group.reductions.front());
      if (!stand_alone(rows) || !read_again(rows)) continue;
      Group merged{.reductions = rows};
      for (size_t i = 1; i <= rows.size(); ++i) {
        if (i == rows.size() || level_[rows[i]] != level_[rows[i - 1]]) merged.stages.push_back(i);
      }
      std::erase_if(groups_, [&](const Leveled& old) { return holds(rows, old.group.reductions.front()); });
      const uint32_t level = level_[rows.back()];
      if (summed) find_columns(merged, level);
      groups_.push_back({.level = level, .group = std::move(merged)});
      return;
    }
  }

  // What a reduction reads of those of other kernels goes to memory.
  void keep_below(uint32_t n) {
    const tn_node& node = fragment_.nodes()[n];
    if (!is_reduction(node.op)) return;
    for (const uint32_t below : roots_[node.inputs[0]].reductions) {
      if (&group_of(below) != &group_of(n)) keep(below);
    }
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

  // The kernel that keeps rows, where it can make `tensor` of them.
  Group* rows_of(uint32_t tensor) {
    for (Leveled& one : groups_) {
      if (one.group.keeps_rows() && is_row_made(one.group.reductions, tensor)) return &one.group;
    }
    return nullptr;
  }

  void place_outputs() {
    for (const uint32_t tensor : fragment_.outputs()) {
      const Roots& roots = roots_[tensor];
      if (Group* const rows = rows_of(tensor); rows != nullptr) {
        store(*rows, tensor);
        continue;
      }
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

Schedule make_schedule(const FragmentView& fragment, Rows rows) { return Scheduler(fragment).run(rows); }

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
