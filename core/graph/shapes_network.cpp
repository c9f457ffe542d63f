// SPDX-License-Identifier: Apache-2.0
// shapes_network.cpp: the shape column of ops.def for layers: windows, normalisations, losses, attention, lookups,
// optimizers and collectives.
#include "graph/infer.hpp"

#include <algorithm>

namespace tenon::graph {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

Status expect_length(const Question& q, const char* attribute, size_t length) {
  const Dims& numbers = q.integers(attribute);
  if (numbers.size() == length) return {};
  return bad("attribute '" + std::string(attribute) + "' is " + words(numbers) + ", it has " +
             std::to_string(length) + " numbers");
}

// How often a window fits along one dim of an image.
struct Window {
  int64_t places, before, after, kernel, stride, dilation;

  Result<int64_t> count() const {
    const std::string told = "a window of " + number(kernel) + " (stride " + number(stride) + ", dilation " +
                             number(dilation) + ") on " + number(places) + " places padded by " +
                             number(before) + " and " + number(after);
    if (kernel < 1 || stride < 1 || dilation < 1 || before < 0 || after < 0)
      return bad(told + ": kernel, stride and dilation are 1 or more, padding 0 or more");
    const int64_t room = plus(plus(places, plus(before, after)), -plus(times(dilation, kernel - 1), 1));
    if (room < 0) return bad(told + " does not fit once");
    return room / stride + 1;
  }
};

// [N, channels, P, Q]: a window of the last two of `sizes` over x.
Result<Dims> slide(const Question& q, const Dims& x, int64_t channels, const Dims& sizes) {
  TN_TRY(expect_length(q, "pad", 4));
  TN_TRY(expect_length(q, "stride", 2));
  const bool dilated = q.find("dilation") != nullptr;
  if (dilated) TN_TRY(expect_length(q, "dilation", 2));
  const Dims &pad = q.integers("pad"), &stride = q.integers("stride");
  Dims out{x[0], channels};
  for (size_t i = 0; i < 2; ++i) {
    const Window window{.places = x[2 + i],
                        .before = pad[i],
                        .after = pad[2 + i],
                        .kernel = sizes[sizes.size() - 2 + i],
                        .stride = stride[i],
                        .dilation = dilated ? q.integers("dilation")[i] : 1};
    out.push_back(TN_TRY(window.count()));
  }
  return out;
}

Status expect_image(const Dims& dims, const char* what) {
  if (dims.size() == 4 && std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; }))
    return {};
  return bad(std::string(what) + " is " + words(dims) + ", it must be four dims");
}

}  // namespace

Shapes conv_shapes(const Question& q) {
  const bool data = q.op() == Op::conv2d_grad_data, weight = q.op() == Op::conv2d_grad_weight;
  const Dims x = data ? q.integers("input_shape") : q.dims(0),
             w = weight ? q.integers("weight_shape") : q.dims(1);
  TN_TRY(expect_image(x, data ? "attribute 'input_shape'" : "input 0"));
  TN_TRY(expect_image(w, weight ? "attribute 'weight_shape'" : "input 1"));
  const int64_t groups = q.integer("groups");
  if (groups < 1 || w[0] % groups != 0)
    return bad("groups " + number(groups) + " do not divide the " + number(w[0]) + " filters of " + words(w));
  if (x[1] != times(w[1], groups)) {
    return bad("x " + words(x) + " has " + number(x[1]) + " channels; w " + words(w) + " in groups of " +
               number(groups) + " takes " + number(times(w[1], groups)));
  }
  const Dims y = TN_TRY(slide(q, x, w[0], w));
  if (data) TN_TRY(expect(q, 0, y));
  if (weight) TN_TRY(expect(q, 1, y));
  return std::vector<Dims>{data ? x : weight ? w : y};
}

Shapes pool_shapes(const Question& q) {
  if (q.op() == Op::global_pool) {
    TN_TRY(expect_rank(q, 0, 4));
    return std::vector<Dims>{{q.dims(0)[0], q.dims(0)[1], 1, 1}};
  }
  const bool max_grad = q.op() == Op::max_pool_grad, avg_grad = q.op() == Op::avg_pool_grad;
  const Dims x = max_grad ? q.dims(1) : avg_grad ? q.integers("input_shape") : q.dims(0);
  TN_TRY(expect_image(x, max_grad ? "input 1" : avg_grad ? "attribute 'input_shape'" : "input 0"));
  TN_TRY(expect_length(q, "kernel", 2));
  const Dims y = TN_TRY(slide(q, x, x[1], q.integers("kernel")));
  if (!max_grad && !avg_grad) return std::vector<Dims>{y};
  TN_TRY(expect(q, 0, y));
  return std::vector<Dims>{x};
}

// Batch norm: operands are of x's shape or have one element for each channel.
Shapes channel_shapes(const Question& q) {
  if (q.rank(0) < 2) return bad("input 0 has rank " + std::to_string(q.rank(0)) + ", it must be [N, C, …]");
  const Dims& x = q.dims(0);
  const Dims channel{x[1]};
  const bool grad = q.op() == Op::batch_norm_grad || q.op() == Op::batch_norm_grad_stats ||
                    q.op() == Op::batch_norm_grad_apply;
  for (size_t i = 1; i < q.count(); ++i) {
    const bool count = q.op() == Op::batch_norm_grad_apply && i == 7;
    TN_TRY(expect(q, i, grad && i == 1 ? x : count ? Dims{} : channel));
  }
  std::vector<Dims> out(q.outputs(), channel);
  if (q.op() != Op::batch_norm_stats && q.op() != Op::batch_norm_grad_stats) out[0] = x;
  return out;
}

// Layer and RMS norm: parameters have the last dims, statistics the others.
Shapes row_shapes(const Question& q) {
  const Dims& x = q.dims(0);
  const int64_t axes = q.integer("axes");
  if (axes < 1 || axes > static_cast<int64_t>(x.size()))
    return bad("axes " + number(axes) + " of " + words(x) + ": it normalises the last 1 to " +
               std::to_string(x.size()) + " dims");
  const Dims outer(x.begin(), x.end() - axes), inner(x.end() - axes, x.end());
  const bool grad = q.op() == Op::layer_norm_grad || q.op() == Op::rms_norm_grad;
  if (grad) TN_TRY(expect(q, 1, x));
  for (size_t i = grad ? 2 : 1; i < q.count(); ++i) TN_TRY(expect(q, i, grad && i > 2 ? outer : inner));
  std::vector<Dims> out(q.outputs(), grad ? inner : outer);
  out[0] = x;
  return out;
}

Shapes loss_shapes(const Question& q) {
  TN_TRY(expect_rank(q, 0, 2));
  const Dims rows{q.dims(0)[0]};
  TN_TRY(expect(q, 1, rows));
  return std::vector<Dims>{rows, rows};
}

Shapes attention_shapes(const Question& q) {
  const bool grad = q.op() == Op::attention_grad;
  const size_t first = grad ? 1 : 0, mask = grad ? 6 : 3;
  for (size_t i = first; i < first + 3; ++i) TN_TRY(expect_rank(q, i, 4));
  const Dims& query = q.dims(first);
  const Dims key{query[0], query[1], q.dims(first + 1)[2], query[3]};
  const Dims rows(query.begin(), query.end() - 1), scores{query[0], query[1], query[2], key[2]};
  TN_TRY(expect(q, first + 1, key));
  TN_TRY(expect(q, first + 2, key));
  if (q.has(mask)) {
    const auto joint = broadcast(scores, q.dims(mask));
    if (!joint.ok() || *joint != scores)
      return bad("mask " + words(q.dims(mask)) + " does not broadcast to " + words(scores));
  }
  if (!grad) return std::vector<Dims>{query, rows};
  TN_TRY(expect(q, 0, query));
  TN_TRY(expect(q, 4, query));
  TN_TRY(expect(q, 5, rows));
  return std::vector<Dims>{query, key, key};
}

Shapes lookup_shapes(const Question& q) {
  Dims out = q.dims(0);
  if (q.op() == Op::one_hot) {
    if (q.integer("classes") < 1) return bad("classes " + number(q.integer("classes")) + ": give 1 or more");
    out.push_back(q.integer("classes"));
    return std::vector<Dims>{out};
  }
  if (q.op() == Op::embedding) {
    TN_TRY(expect_rank(q, 1, 2));
    out.push_back(q.dims(1)[1]);
    return std::vector<Dims>{out};
  }
  if (q.rank(1) == 0) return bad("input 1 has rank 0, it must have the dims of input 0 and one more");
  out.push_back(q.dims(1).back());
  TN_TRY(expect(q, 1, out));
  if (q.integer("rows") < 0) return bad("rows " + number(q.integer("rows")) + ": give 0 or more");
  return std::vector<Dims>{{q.integer("rows"), out.back()}};
}

// Weights, gradients and states are of one shape, the rest are scalars.
Shapes update_shapes(const Question& q) {
  if (q.op() == Op::update_loss_scaling || q.op() == Op::check_finite_and_unscale) {
    std::vector<Dims> out(q.outputs());
    for (size_t i = 0; i < q.count(); ++i) {
      const bool scalar = i == 0 || q.op() == Op::update_loss_scaling;
      if (scalar) TN_TRY(expect(q, i, {}));
      if (!scalar) out[i] = q.dims(i);
    }
    return out;
  }
  const size_t states = q.op() == Op::sgd ? 0 : q.op() == Op::momentum ? 1 : 2;
  const size_t rate = 2 + states, master = rate + (states == 2 ? 2 : 1);
  for (size_t i = 1; i < q.count(); ++i) TN_TRY(expect(q, i, i < rate || i == master ? q.dims(0) : Dims{}));
  return std::vector<Dims>(q.outputs(), q.dims(0));
}

Shapes rank_shapes(const Question& q) {
  const int64_t comm = q.integer("comm");
  const auto known = q.ranks.find(comm);
  if (known == q.ranks.end())
    return bad("how many ranks communicator " + number(comm) +
               " has is not known: say it with communicator(" + number(comm) + ", ranks)");
  if (q.rank(0) == 0) return bad("input 0 has rank 0, it must have a first dim");
  Dims out = q.dims(0);
  if (q.op() == Op::all_gather) {
    out[0] = times(out[0], known->second);
  } else if (out[0] % known->second != 0) {
    return bad("the first dim " + number(out[0]) + " is no multiple of the " + number(known->second) +
               " ranks");
  } else {
    out[0] /= known->second;
  }
  return std::vector<Dims>{out};
}

}  // namespace tenon::graph
