// SPDX-License-Identifier: Apache-2.0
// shapes.cpp: the shape column of ops.def: what each op's result must be.
#include "rules.hpp"

#include "schedule.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <bitset>

namespace tenon::cuda {

using author::text;

namespace {

// Counting from the last dim, 1 on; a missing dim is 1.
int64_t from_right(std::span<const int64_t> dims, size_t i) {
  return i <= dims.size() ? dims[dims.size() - i] : 1;
}

}  // namespace

std::string words(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += text(i == 0 ? "" : ",", dims[i]);
  return out + "]";
}

Status NodeRules::expect(std::span<const int64_t> dims) const {
  if (std::ranges::equal(out().dims(), dims)) return {};
  return malformed(text("its output is ", words(out().dims()), " and must be ", words(dims)));
}

Status NodeRules::check_shapes() const {
  if (is_elementwise(node_.op)) return check_broadcast();
  if (is_reduction(node_.op)) return check_reduce();
  switch (node_.op) {
    case TN_OP_dropout:
    case TN_OP_random_uniform:
    case TN_OP_random_normal:
      return check_random();
    case TN_OP_broadcast_to:
    case TN_OP_constant:
      return check_from_attribute();
    case TN_OP_reshape:
      return check_reshape();
    case TN_OP_transpose:
      return check_transpose();
    case TN_OP_concat:
      return check_concat();
    case TN_OP_slice:
      return check_slice();
    case TN_OP_pad:
      return check_pad();
    case TN_OP_one_hot:
      return check_one_hot();
    case TN_OP_embedding:
      return check_embedding();
    case TN_OP_convert_layout: {
      const auto layout = *author::attribute_string(node_, "layout");
      if (!layout.empty() && layout != "strided")
        return no(text("layout '", layout, "' is not known here: there are none but strided ones"));
      return expect(in(0).dims());
    }
    default:
      return expect(in(0).dims());  // advance
  }
}

Status NodeRules::check_fits(uint32_t input, std::span<const int64_t> dims) const {
  const auto given = in(input).dims();
  bool fits = given.size() <= dims.size();
  for (size_t i = 1; fits && i <= given.size(); ++i)
    fits = from_right(given, i) == 1 || from_right(given, i) == from_right(dims, i);
  if (fits) return {};
  return malformed(
      text("input ", input, " is ", words(given), ", which does not broadcast to ", words(dims)));
}

// Every input fits the output, which is no larger than it has to be.
Status NodeRules::check_broadcast() const {
  const auto dims = out().dims();
  for (uint32_t n = 0; n < node_.input_count; ++n) TN_TRY(check_fits(n, dims));
  for (size_t i = 0; i < dims.size(); ++i) {
    bool found = dims[i] == 1;
    for (uint32_t n = 0; n < node_.input_count && !found; ++n)
      found = from_right(in(n).dims(), dims.size() - i) == dims[i] && in(n).rank() >= dims.size() - i;
    if (!found) return malformed(text("dim ", i, " of the output is ", dims[i], ", and no input's is"));
  }
  bool ranked = dims.empty();
  for (uint32_t n = 0; n < node_.input_count; ++n) ranked = ranked || in(n).rank() == dims.size();
  return ranked ? Status() : malformed(text("its output is ", words(dims), ", and no input is of that rank"));
}

Status NodeRules::check_reduce() const {
  const auto dims = in(0).dims(), axes = integers("axes");
  const auto rank = static_cast<int64_t>(dims.size());
  std::bitset<TN_MAX_RANK> folded;
  for (const int64_t axis : axes) {
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank || folded[static_cast<size_t>(at)])
      return malformed(
          text("axis ", axis, " of ", words(axes), " is outside rank ", rank, " or named twice"));
    folded.set(static_cast<size_t>(at));
  }
  if (node_.op == TN_OP_argmax && axes.size() != 1)
    return malformed(text("takes one axis, not ", axes.size()));
  FixedDims result;
  int64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    count *= folded[i] ? dims[i] : 1;
    if (!folded[i])
      result.add(dims[i]);
    else if (integer("keepdims") != 0)
      result.add(1);
  }
  if (node_.op == TN_OP_argmax && count == 0 && out().elements() != 0)
    return malformed(text("axis ", axes[0], " of ", words(dims), " is empty: nothing has no greatest"));
  return expect(result.dims());
}

Status NodeRules::check_random() const {
  for (uint32_t i = node_.input_count - 2; i < node_.input_count; ++i) {
    if (in(i).rank() != 0)
      return malformed(text("input ", i, " is ", words(in(i).dims()), " and must be of rank 0"));
  }
  if (node_.op != TN_OP_dropout) return expect(integers("shape"));
  const double rate = *author::attribute_f64(node_, "rate");
  if (!(rate >= 0 && rate <= 1)) return malformed(text("rate ", rate, " is not within 0 … 1"));
  return expect(in(0).dims());
}

Status NodeRules::check_from_attribute() const {
  const auto shape = integers("shape");
  TN_TRY(expect(shape));
  return node_.op == TN_OP_broadcast_to ? check_fits(0, shape) : Status();
}

Status NodeRules::check_reshape() const {
  const auto shape = integers("shape");
  const bool open = std::ranges::any_of(shape, [](int64_t dim) { return dim < 0; });
  if (!open) TN_TRY(expect(shape));
  if (in(0).elements() == out().elements()) return {};
  return malformed(
      text(words(in(0).dims()), " and ", words(out().dims()), " have different counts of elements"));
}

Status NodeRules::check_transpose() const {
  const auto order = integers("order");
  std::bitset<TN_MAX_RANK> seen;
  FixedDims result;
  for (const int64_t from : order) {
    if (from < 0 || from >= in(0).rank() || seen[static_cast<size_t>(from)])
      return malformed(text("order ", words(order), " is no permutation of ", in(0).rank(), " dims"));
    seen.set(static_cast<size_t>(from));
    result.add(in(0).dims()[static_cast<size_t>(from)]);
  }
  if (order.size() != in(0).rank())
    return malformed(text("order ", words(order), " misses dims of ", words(in(0).dims())));
  return expect(result.dims());
}

Status NodeRules::check_concat() const {
  const auto rank = static_cast<int64_t>(in(0).rank());
  const int64_t given = integer("axis"), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) return malformed(text("axis ", given, " is outside rank ", rank));
  FixedDims result(in(0).dims());
  int64_t& along = result.at[static_cast<size_t>(axis)];
  along = 0;
  for (uint32_t n = 0; n < node_.input_count; ++n) {
    const auto dims = in(n).dims();
    bool fits = dims.size() == result.rank;
    for (size_t i = 0; fits && i < dims.size(); ++i)
      fits = i == static_cast<size_t>(axis) || dims[i] == result.at[i];
    if (!fits)
      return malformed(text("input ", n, " is ", words(dims), ", which does not join ", words(in(0).dims()),
                            " along axis ", axis));
    along += dims[static_cast<size_t>(axis)];
  }
  return expect(result.dims());
}

Status NodeRules::check_slice() const {
  const auto dims = in(0).dims(), begin = integers("begin"), end = integers("end"), step = integers("step");
  if (begin.size() != dims.size() || end.size() != dims.size() || step.size() != dims.size())
    return malformed(text("begin, end and step have ", dims.size(), " numbers each for ", words(dims)));
  FixedDims result;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (step[i] < 1 || begin[i] < 0 || begin[i] > end[i] || end[i] > dims[i])
      return malformed(
          text("[", begin[i], ":", end[i], ":", step[i], "] leaves dim ", i, " of ", words(dims)));
    result.add((end[i] - begin[i] + step[i] - 1) / step[i]);
  }
  return expect(result.dims());
}

Status NodeRules::check_pad() const {
  const auto dims = in(0).dims(), before = integers("before"), after = integers("after");
  if (before.size() != dims.size() || after.size() != dims.size())
    return malformed(text("before and after have ", dims.size(), " numbers each for ", words(dims)));
  FixedDims result;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (before[i] < 0 || after[i] < 0)
      return malformed(text("dim ", i, " is padded by ", before[i], " and ", after[i]));
    result.add(dims[i] + before[i] + after[i]);
  }
  return expect(result.dims());
}

Status NodeRules::check_one_hot() const {
  if (integer("classes") < 1) return malformed(text(integer("classes"), " classes are none"));
  FixedDims result(in(0).dims());
  result.add(integer("classes"));
  return expect(result.dims());
}

Status NodeRules::check_embedding() const {
  const TensorView table = in(1);
  if (table.rank() != 2)
    return malformed(text("its table is ", words(table.dims()), " and must be of rank 2"));
  for (const tn_node& node : fragment_.nodes()) {
    if (node.output_count > 0 && node.outputs[0] == node_.inputs[1])
      return no("its table is computed by a node of the same fragment: compile that one apart");
  }
  FixedDims result(in(0).dims());
  result.add(table.dims()[1]);
  return expect(result.dims());
}

}  // namespace tenon::cuda
