// SPDX-License-Identifier: Apache-2.0
// backward.cpp: see backward.hpp. A tensor without a type stands for an operand that is absent.
#include "conformance/gradients/backward.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

using Kind = Expression::Kind;
using Shape = std::vector<int64_t>;

AttributeValue ints_attribute(const char* name, Shape values) {
  return {.name = name, .kind = TN_ATTRIBUTE_I64S, .integers = std::move(values)};
}

AttributeValue int_attribute(const std::string& name, int64_t value) {
  return {.name = name, .kind = TN_ATTRIBUTE_I64, .integer = value};
}

Tensor reshaped(Tensor from, Shape dims) {
  from.dims = std::move(dims);
  return from;
}

Tensor filled(uint32_t dtype, const Shape& dims, double value) {
  return {.dtype = dtype, .dims = dims, .at = std::vector<Scalar>(element_count(dims), Scalar::of(value))};
}

Result<std::vector<Tensor>> one_value(Result<Tensor> value) {
  std::vector<Tensor> out;
  out.push_back(TN_TRY(std::move(value)));
  return out;
}

int64_t product_of(const Shape& dims, size_t first, size_t last) {
  int64_t out = 1;
  for (size_t i = first; i < last; ++i) out *= dims[i];
  return out;
}

}  // namespace

Status Backward::unread(const std::string& what) {
  return Status(TN_INTERNAL, words("gradients.def has what the kit cannot read: ", what));
}

Result<Tensor> Backward::of_input(uint32_t input, const Expression& expression) {
  input_ = input;
  const Tensor& x = inputs_[input];
  if (expression.kind == Kind::word && expression.word == "zero") return filled(x.dtype, x.dims, 0);
  return make(expression);
}

Result<Tensor> Backward::make(const Expression& e) {
  switch (e.kind) {
    case Kind::input:
      return e.index < inputs_.size() ? inputs_[e.index] : Tensor{};
    case Kind::output:
    case Kind::gradient: {
      if (e.index >= outputs_.size()) return unread(words("output ", e.index));
      const Tensor& y = outputs_[e.index];
      if (e.kind == Kind::output) return y;
      return gradients_[e.index].at.empty() ? filled(y.dtype, y.dims, 0) : gradients_[e.index];
    }
    case Kind::number:
      return filled(outputs_.front().dtype, {}, e.number);
    case Kind::call:
      return call(e);
    case Kind::word:
      break;
  }
  return unread(e.word);
}

Result<Tensor> Backward::call(const Expression& e) {
  if (e.word == "choose") return make(e.arguments[node_.integer(e.arguments[0].word) != 0 ? 1 : 2]);
  // part(dy0) is another one for each input.
  const std::string key = e.word == "part" ? words(e.text, input_) : e.text;
  if (!made_.contains(key)) {
    Values made = TN_TRY(compute(e));
    made_.emplace(key, std::move(made));
  }
  const Values& known = made_.at(key);
  if (e.index >= known.size()) return unread(words(e.text, " has no output ", e.index));
  return known[e.index];
}

Result<Backward::Values> Backward::compute(const Expression& e) {
  Values in;
  for (const Expression& argument : e.arguments) in.push_back(TN_TRY(make(argument)));
  const Shape second = in.size() > 1 ? in[1].dims : Shape();
  if (e.word == "unbroadcast") return one_value(unbroadcast(in[0], second));
  if (e.word == "unreduce") return one_value(unreduce(in[0], second));
  if (e.word == "part") return one_value(part(in[0]));
  if (e.word == "unslice") return one_value(unslice(in[0], second));
  if (e.word == "unpad") return one_value(unpad(in[0], second));
  if (e.word == "zeros") return one_value(filled(in[0].dtype, in[0].dims, 0));
  if (e.word == "ones") return one_value(filled(in[0].dtype, in[0].dims, 1));
  std::vector<AttributeValue> attributes;
  for (size_t i = 0; i < e.attributes.size(); ++i)
    attributes.push_back(TN_TRY(attribute(e.attributes[i], e.given[i])));
  if (e.word == "reshape") return one_value(reshaped(in[0], attributes.front().integers));
  return run(e.word, in, std::move(attributes));
}

Result<AttributeValue> Backward::attribute(const std::string& name, const Expression& from) {
  if (from.kind == Kind::word) {
    const AttributeValue* const own = node_.attribute(from.word);
    if (own == nullptr) return unread(words("attribute ", from.word));
    AttributeValue out = *own;
    out.name = name;
    return out;
  }
  if (from.kind == Kind::number) {
    const auto whole = static_cast<int64_t>(from.number);
    if (static_cast<double>(whole) == from.number && name != "scale" && name != "bias" && name != "value")
      return int_attribute(name, whole);
    return AttributeValue{.name = name, .kind = TN_ATTRIBUTE_F64, .real = from.number};
  }
  if (from.kind != Kind::call) return unread(words("attribute ", name));
  const std::string& word = from.arguments[0].word;
  if (from.word == "not") return int_attribute(name, node_.integer(word) == 0 ? 1 : 0);
  if (from.word == "list") return ints_attribute(name.c_str(), {node_.integer(word)});
  if (from.word == "inverse") {
    const Shape& order = node_.integers(word);
    Shape out(order.size());
    for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return ints_attribute(name.c_str(), std::move(out));
  }
  const Tensor value = TN_TRY(make(from.arguments[0]));
  if (from.word == "shape") return ints_attribute(name.c_str(), value.dims);
  if (from.word == "dtype")
    return AttributeValue{
        .name = name, .kind = TN_ATTRIBUTE_DTYPE, .integer = static_cast<int64_t>(value.dtype)};
  if (from.word == "dim")
    return int_attribute(name, value.dims[static_cast<size_t>(from.arguments[1].number)]);
  if (from.word == "share") {
    const Tensor other = TN_TRY(make(from.arguments[1]));
    const double share = static_cast<double>(value.at.size()) / static_cast<double>(other.at.size());
    return AttributeValue{.name = name, .kind = TN_ATTRIBUTE_F64, .real = share};
  }
  return unread(from.text);
}

Result<Backward::Values> Backward::run(std::string_view op, const Values& in,
                                       std::vector<AttributeValue> attributes) {
  const Row* const row = find_row(op);
  if (row == nullptr) return unread(std::string(op));
  Trial trial{.row = row, .subject = in[0].dtype};
  for (const Tensor& value : in) {
    trial.inputs.push_back({.dtype = value.dtype, .dims = value.dims});
    trial.inputs.back().absent = value.dtype == TN_DTYPE_NONE;
  }
  trial.attributes = completed(*row, std::move(attributes));
  trial.outputs = results_of(*row, trial.inputs, trial);
  if (trial.outputs.empty()) return unread(words(op, " in a row"));
  const auto program = TN_TRY(Program::make(t_, device_, stream_, trial));
  return program->run(in);
}

Result<Tensor> Backward::run_one(std::string_view op, const Tensor& in,
                                 std::vector<AttributeValue> attributes) {
  Values out = TN_TRY(run(op, {in}, std::move(attributes)));
  return std::move(out.front());
}

Result<Tensor> Backward::unbroadcast(const Tensor& from, const Shape& to) {
  if (from.dims == to) return from;
  if (from.dims.size() < to.size()) return unread("unbroadcast of fewer dims");
  const size_t more = from.dims.size() - to.size();
  Shape axes;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    if (i < more || from.dims[i] != to[i - more]) axes.push_back(static_cast<int64_t>(i));
  }
  return reshaped(TN_TRY(run_one("sum", from, {ints_attribute("axes", std::move(axes))})), to);
}

Result<Tensor> Backward::unreduce(const Tensor& from, const Shape& to) {
  Shape kept = to;
  for (const int64_t axis : from_the_front(node_.integers("axes"), to.size()))
    kept[static_cast<size_t>(axis)] = 1;
  const Tensor wide = reshaped(from, kept);
  if (kept == to) return wide;
  return run_one("broadcast_to", wide, {ints_attribute("shape", to)});
}

Result<Tensor> Backward::part(const Tensor& from) {
  const int64_t given = node_.integer("axis");
  const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(from.dims.size()) : given);
  Shape begin(from.dims.size(), 0), end = from.dims;
  for (uint32_t i = 0; i < input_; ++i) begin[axis] += inputs_[i].dims[axis];
  end[axis] = begin[axis] + inputs_[input_].dims[axis];
  return run_one("slice", from,
                 {ints_attribute("begin", begin), ints_attribute("end", end),
                  ints_attribute("step", Shape(begin.size(), 1))});
}

// [.., n, ..] to [.., n·step, ..] with zeros behind each element.
Result<Tensor> Backward::spread(const Tensor& from, size_t dim, int64_t step) {
  Shape dims = from.dims;
  const Tensor apart =
      reshaped(from, {product_of(dims, 0, dim) * dims[dim], 1, product_of(dims, dim + 1, dims.size())});
  dims[dim] *= step;
  return reshaped(
      TN_TRY(run_one("pad", apart,
                     {ints_attribute("before", {0, 0, 0}), ints_attribute("after", {0, step - 1, 0})})),
      dims);
}

Result<Tensor> Backward::unslice(Tensor from, const Shape& to) {
  const Shape &begin = node_.integers("begin"), &end = node_.integers("end"), &step = node_.integers("step");
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] > 1 && from.dims[i] != 0) from = TN_TRY(spread(from, i, step[i]));
  }
  Shape last = from.dims, after(to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    last[i] = std::min(last[i], end[i] - begin[i]);
    after[i] = to[i] - begin[i] - last[i];
  }
  if (last != from.dims) {
    from = TN_TRY(run_one("slice", from,
                          {ints_attribute("begin", Shape(last.size(), 0)), ints_attribute("end", last),
                           ints_attribute("step", Shape(last.size(), 1))}));
  }
  if (last == to) return from;
  return run_one("pad", from, {ints_attribute("before", begin), ints_attribute("after", after)});
}

Result<Tensor> Backward::unpad(const Tensor& from, const Shape& to) {
  const Shape& begin = node_.integers("before");
  Shape end = to;
  for (size_t i = 0; i < end.size(); ++i) end[i] += begin[i];
  return run_one("slice", from,
                 {ints_attribute("begin", begin), ints_attribute("end", end),
                  ints_attribute("step", Shape(begin.size(), 1))});
}

}  // namespace tenon::conform
