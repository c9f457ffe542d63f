// SPDX-License-Identifier: Apache-2.0
// channel_nodes.hpp: a fragment whose batch norm is spelled out: sums over a channel, what is made of them, and what is made of
// every element with them.
//
// It keeps the fragment's tensors by their numbers, its inputs, outputs and aliases, and adds tensors and nodes. What is added
// computes in f32, for f64 in f64; only what is given to a tensor of the fragment is rounded to its type. What an element needs of
// its channel (a mean, a slope) is `kept`: made once for each channel, and read back.
// Invariant: it borrows from the fragment that it was made of, and its own parts never move.
#pragma once

#include "index.hpp"

#include <tenon/author/node_view.hpp>

#include <deque>
#include <map>

namespace tenon::cuda {

using author::FragmentView;
using author::NodeView;
using author::TensorView;

bool is_batch_norm(uint32_t op) noexcept;

class ChannelNodes {
 public:
  explicit ChannelNodes(const FragmentView& fragment);
  ChannelNodes(const ChannelNodes&) = delete;
  ChannelNodes& operator=(const ChannelNodes&) = delete;

  FragmentView view() const noexcept { return FragmentView(raw_); }
  // Nodes that fold channels.
  const std::vector<uint32_t>& sums() const noexcept { return sums_; }
  // Tensors of one element a channel that elements read back, and those of the fragment that are made of nothing but sums.
  const std::vector<uint32_t>& kept() const noexcept { return kept_; }
  const std::vector<uint32_t>& statistics() const noexcept { return statistics_; }

  // For formulas (channel_formulas.cpp): a node, and the tensor that it makes. Inputs broadcast. What one formula made of the same
  // tensors serves the next: no slope or distance from a mean is made twice.
  uint32_t compute(uint32_t op, std::initializer_list<uint32_t> inputs);
  // x · by + bias
  uint32_t scale(uint32_t x, double by, double bias = 0);
  uint32_t cast(uint32_t tensor, uint32_t dtype);
  // Over all dims but the channels.
  uint32_t fold(uint32_t op, uint32_t x);
  // One element of each channel: the one in the middle of the first third, of the second, of the last.
  uint32_t sample(uint32_t x, int64_t third);
  // One element a channel as [C], and as something that broadcasts with x.
  uint32_t of_channel(uint32_t tensor);
  uint32_t along(uint32_t tensor);
  uint32_t number(double value);
  // Made once, and read back by what is made of it `along` elements.
  uint32_t keep(uint32_t tensor);
  // A tensor of the fragment gets the elements of `from`, rounded to its type; a statistic is made with the sums.
  void give(uint32_t from, uint32_t to, bool statistic);

  // What formulas compute in, and of how many elements a channel is.
  uint32_t computing() const noexcept { return computing_; }
  uint64_t count() const noexcept { return count_; }

 private:
  // The tensor that was made so before, or TN_ABSENT.
  using Recipe = std::pair<uint32_t, std::vector<uint32_t>>;
  uint32_t find(const Recipe& recipe) const;
  uint32_t remember(Recipe recipe, uint32_t tensor);
  void refresh() noexcept;
  uint32_t add_tensor(uint32_t dtype, Dims dims);
  void add_node(uint32_t op, std::initializer_list<uint32_t> inputs, uint32_t output,
                std::vector<tn_attribute> attributes = {});
  tn_attribute integers(const char* name, Dims values);
  Dims dims_of(uint32_t tensor) const;

  tn_fragment raw_;
  std::vector<tn_tensor> tensors_;
  std::vector<tn_node> nodes_{};
  std::deque<Dims> numbers_{};
  std::deque<uint64_t> constants_{};
  std::deque<std::vector<uint32_t>> operands_{};
  std::deque<std::vector<tn_attribute>> attributes_{};
  std::map<Recipe, uint32_t> remembered_{};
  std::vector<uint32_t> sums_{}, kept_{}, statistics_{};
  Dims dims_{};  // of x
  uint32_t computing_ = TN_DTYPE_f32;
  uint64_t count_ = 0;
};

// The formula of `node`, in nodes of `out`. (channel_formulas.cpp) [any-thread; does not block; may throw bad_alloc]
void spell_out_channels(const NodeView& node, ChannelNodes& out);

}  // namespace tenon::cuda
