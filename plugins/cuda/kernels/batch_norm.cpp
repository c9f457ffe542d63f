// SPDX-License-Identifier: Apache-2.0
// batch_norm.cpp: batch norms and their gradients, with the elementwise nodes around them: first what each channel needs, then
// every element from it.
//
// The node is spelled out (channel_nodes.hpp). One kernel folds the channels, split over blocks where they are few, and makes of
// the sums the statistics and what elements read back; one kernel makes the elements, with the nodes before and behind. x is read
// twice and y written once: forward over bf16, 6 bytes an element. Back through a relu, which asks what a batch_norm_apply of the
// same x gives, each kernel reads dy and x, and dx is written: 10 bytes an element.
// Invariant: the second kernel reads of the first what is in the workspace, and of x and dy only the elements that it makes.
#include "channel_nodes.hpp"
#include "expression.hpp"
#include "families.hpp"
#include "kernels.hpp"
#include "literal.hpp"
#include "prelude.hpp"

#include <algorithm>
#include <bit>

namespace tenon::cuda {

using author::text;

namespace {

// The one the others go with: a batch_norm_apply only where there is no other.
uint32_t norm_of(const FragmentView& fragment) {
  const auto nodes = fragment.nodes();
  auto found = std::ranges::find_if(
      nodes, [](const tn_node& node) { return is_batch_norm(node.op) && node.op != TN_OP_batch_norm_apply; });
  if (found == nodes.end())
    found = std::ranges::find_if(nodes, [](const tn_node& node) { return is_batch_norm(node.op); });
  return static_cast<uint32_t>(found - nodes.begin());
}

// How many leading inputs have the dims of x.
uint32_t subjects_of(uint32_t op) {
  return op == TN_OP_batch_norm_grad || op == TN_OP_batch_norm_grad_stats || op == TN_OP_batch_norm_grad_apply
             ? 2
             : 1;
}

// Whether `node` makes again, element by element, what may have been given on the way to the gradient `norm`: of its very x, so of
// the same dims, and computed in the same type.
bool makes_again(const NodeView& node, const NodeView& norm) {
  return node.op() == TN_OP_batch_norm_apply && subjects_of(norm.op()) == 2 &&
         node.raw().inputs[0] == norm.raw().inputs[1];
}

// Whether output `o` has an element for each channel.
bool gives_statistic(uint32_t op, uint32_t o) {
  return o > 0 || op == TN_OP_batch_norm_stats || op == TN_OP_batch_norm_grad_stats;
}

bool has(std::span<const uint32_t> list, uint32_t tensor) {
  return std::ranges::find(list, tensor) != list.end();
}

class Writer {
 public:
  Writer(const FragmentView& fragment, const Target& target)
      : nodes_(fragment), view_(nodes_.view()), target_(target), schedule_(make_schedule(view_)) {
    // Nothing but what is kept goes through the workspace.
    schedule_.workspace_bytes = 0;
    for (Home& home : schedule_.homes) {
      if (home.kind == Home::Kind::workspace) home = {};
    }
    for (const uint32_t tensor : nodes_.kept()) {
      const TensorView view = view_.tensor(tensor);
      schedule_.homes[tensor] = {
          .kind = Home::Kind::workspace,
          .offset = schedule_.reserve(author::dtype_bytes(view.dtype(), view.elements()))};
    }
  }

  Result<Program> run() {
    open_source(out_, view_.binding_count());
    write_constants({view_, schedule_}, out_);
    TN_TRY(write_channels());
    TN_TRY(write_elements());
    close_source(out_);
    program_.source = out_.text();
    program_.workspace_bytes = schedule_.workspace_bytes;
    return std::move(program_);
  }

 private:
  // What is there to store of `tensors`.
  std::vector<uint32_t> stores(std::vector<uint32_t> tensors) const {
    std::erase_if(tensors, [&](uint32_t t) { return view_.tensor(t).elements() == 0; });
    return tensors;
  }

  Status write_channels() {
    Group group{.reductions = nodes_.sums(), .stores = stores(nodes_.kept())};
    for (const uint32_t tensor : stores(nodes_.statistics())) {
      if (has(view_.outputs(), tensor)) group.stores.push_back(tensor);
    }
    return write_group(schedule_, group);
  }

  // Outputs of equal dims share a kernel.
  Status write_elements() {
    Schedule behind = schedule_;
    for (const uint32_t tensor : nodes_.kept()) behind.producers[tensor] = TN_ABSENT;
    std::vector<uint32_t> left;
    for (const uint32_t tensor : view_.outputs()) {
      if (!has(nodes_.statistics(), tensor) && !has(left, tensor)) left.push_back(tensor);
    }
    left = stores(std::move(left));
    while (!left.empty()) {
      const TensorView first = view_.tensor(left.front());
      const auto others = std::stable_partition(
          left.begin(), left.end(), [&](uint32_t t) { return author::same_dims(view_.tensor(t), first); });
      TN_TRY(write_group(behind, {.reductions = {}, .stores = {left.begin(), others}}));
      left.erase(left.begin(), others);
    }
    return {};
  }

  Status write_group(Schedule& schedule, const Group& group) {
    if (group.stores.empty()) return {};
    const Frame frame{view_, schedule};
    Trace traced = TN_TRY(trace(view_, schedule, group));
    out_.line();
    if (group.reductions.empty())
      write_elementwise(frame, traced, target_, number_, out_, program_.steps);
    else
      write_reduction(frame, schedule, group, traced, target_, number_, out_, program_.steps);
    ++number_;
    return {};
  }

  ChannelNodes nodes_;
  FragmentView view_;
  const Target& target_;
  Schedule schedule_;
  Source out_{};
  Program program_{};
  uint32_t number_ = 0;
};

// Tensors of one element a channel that elements read back, as channel_formulas.cpp keeps them.
uint64_t kept_by(uint32_t op) {
  switch (op) {
    case TN_OP_batch_norm_train:
      return 2;
    case TN_OP_batch_norm_infer:
      return 1;
    case TN_OP_batch_norm_grad:
    case TN_OP_batch_norm_grad_apply:
      return 3;
    default:
      return 0;
  }
}

bool has_sums(uint32_t op) {
  return op == TN_OP_batch_norm_train || op == TN_OP_batch_norm_grad || op == TN_OP_batch_norm_stats ||
         op == TN_OP_batch_norm_grad_stats;
}

// How many blocks share a channel, as reduce.cpp lays a fold over x where every operand lies as x does.
uint64_t slices_of(TensorView x, const Target& target) {
  const auto steps = x.strides();
  const auto channels = static_cast<uint64_t>(x.dims()[1]);
  const uint32_t element = bytes_of(x.dtype());
  if (x.elements() == 0 || element == 0) return 1;
  bool neighbours = channels > 1;
  for (uint32_t i = 0; i < x.rank(); ++i)
    neighbours = neighbours && (i == 1 || x.dims()[i] == 1 || steps[1] < steps[i]);
  const uint64_t lanes = 16 / element, folded = x.elements() / channels;
  const uint64_t across =
      neighbours ? std::min<uint64_t>(std::bit_ceil(std::max<uint64_t>(channels / lanes, 1)), 32)
                 : block_threads / std::min<uint64_t>(std::bit_ceil(folded / lanes / 4 + 1), block_threads);
  const uint64_t per_block = across * (neighbours ? lanes : 1), along = block_threads / across;
  const uint64_t blocks = (channels + per_block - 1) / per_block,
                 wanted = uint64_t{target.multiprocessors} * 4;
  if (blocks * 2 >= wanted) return 1;
  return std::min((wanted + blocks - 1) / blocks, folded / (neighbours ? 1 : lanes) / (along * 8));
}

// Whether everything made of `tensor` is made element by element, over the same dims.
bool stays_in_place_of_channels(const FragmentView& fragment, uint32_t tensor) {
  std::vector<bool> made_of_it(fragment.tensors().size());
  made_of_it[tensor] = true;
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const NodeView node(fragment, n);
    bool reads = false;
    for (uint32_t i = 0; i < node.inputs(); ++i) {
      if (!made_of_it[node.raw().inputs[i]]) continue;
      reads = true;
      const bool subject = is_batch_norm(node.op()) && i < subjects_of(node.op());
      if (!subject && (!is_computed(node.op()) || !author::same_dims(node.in(i), node.out(0)))) return false;
    }
    if (reads && node.gives(0)) made_of_it[node.raw().outputs[0]] = true;
  }
  return true;
}

// Statistics that go on: read once, for each channel by the thread that writes them.
bool renews(const FragmentView& fragment, const tn_alias& pair) {
  const NodeView norm(fragment, norm_of(fragment));
  const uint32_t from = fragment.inputs()[pair.input], to = fragment.outputs()[pair.output];
  uint32_t reads = 0;
  for (const tn_node& node : fragment.nodes())
    reads += static_cast<uint32_t>(std::count(node.inputs, node.inputs + node.input_count, from));
  if (norm.op() != TN_OP_batch_norm_train || reads != 1) return false;
  for (const uint32_t i : {3u, 4u}) {
    if (norm.raw().inputs[i] == from && norm.gives(i) && norm.raw().outputs[i] == to) return true;
  }
  return false;
}

}  // namespace

bool takes_batch_norm(const FragmentView& fragment) { return norm_of(fragment) < fragment.nodes().size(); }

Status check_batch_norm(const FragmentView& fragment) {
  const uint32_t at = norm_of(fragment);
  const NodeView norm(fragment, at);
  std::vector<bool> statistic(fragment.tensors().size());
  for (uint32_t o = 0; o < norm.outputs(); ++o) {
    if (norm.gives(o)) statistic[norm.raw().outputs[o]] = gives_statistic(norm.op(), o);
  }
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const NodeView node(fragment, n);
    if (n == at) continue;
    if (!is_computed(node.op()) && !makes_again(node, norm))
      return node.unsupported(
          "only elementwise nodes go with a batch norm: compile it as a fragment of its own");
    for (uint32_t i = 0; i < node.inputs(); ++i) {
      if (!statistic[node.raw().inputs[i]]) continue;
      if (!author::same_dims(node.out(0).dims(), norm.dims(0).subspan(1, 1)))
        return node.unsupported(text("makes ", author::words(node.out(0).dims()),
                                     " of a batch norm's statistic: compile it as a fragment of its own"));
      statistic[node.raw().outputs[0]] = true;
    }
  }
  return {};
}

Result<Program> write_batch_norm(const FragmentView& fragment, const Target& target) {
  return Writer(fragment, target).run();
}

uint64_t workspace_of_batch_norm(const FragmentView& fragment, const Target& target) {
  const NodeView norm(fragment, norm_of(fragment));
  const auto channels = static_cast<uint64_t>(norm.dims(0)[1]);
  const uint64_t bytes = norm.in(0).dtype() == TN_DTYPE_f64 ? 8 : 4;
  const auto rounded_up = [](uint64_t x) { return (x + 255) / 256 * 256; };
  const uint64_t slices = slices_of(norm.in(0), target);
  const bool folds = has_sums(norm.op()) && slices > 1;
  return kept_by(norm.op()) * rounded_up(channels * bytes) +
         (folds ? 2 * rounded_up(slices * channels * bytes) : 0);
}

author::Honoured honoured_by_batch_norm(const FragmentView& fragment) {
  const NodeView norm(fragment, norm_of(fragment));
  return author::honoured_of(fragment.aliases(), [&](const tn_alias& pair) {
    const TensorView from = fragment.input(pair.input), to = fragment.output(pair.output);
    if (!same_places(from, to)) return false;
    const bool whole = author::same_dims(from, norm.in(0)) &&
                       stays_in_place_of_channels(fragment, fragment.inputs()[pair.input]);
    return whole || renews(fragment, pair);
  });
}

}  // namespace tenon::cuda
