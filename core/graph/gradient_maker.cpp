// SPDX-License-Identifier: Apache-2.0
// gradient_maker.cpp: see gradient_maker.hpp.
#include "graph/gradient_maker.hpp"

#include "graph/words.hpp"

#include <algorithm>
#include <utility>

namespace tenon::graph {
namespace {

using Kind = Expression::Kind;

int64_t product(const std::vector<int64_t>& dims, size_t first, size_t last) {
  int64_t out = 1;
  for (size_t i = first; i < last; ++i) out *= dims[i];
  return out;
}

}  // namespace

GraphValue GradientMaker::wrong(const std::string& text) {
  if (status_.ok())
    status_ = Status(TN_INTERNAL, "gradients.def: " + std::string(name(node_.op)) + ", input " +
                                      std::to_string(input_) + ": " + text);
  return {};
}

GraphValue GradientMaker::of_input(uint32_t input, const Expression& expression) {
  input_ = input;
  return make(expression);
}

GraphValue GradientMaker::value(const std::vector<uint32_t>& indexes, uint32_t i) {
  return i < indexes.size() ? graph_.value(indexes[i]) : Value{};
}

GraphValue GradientMaker::make(const Expression& expression) {
  switch (expression.kind) {
    case Kind::input:
      return value(node_.inputs, expression.index);
    case Kind::output:
      return value(node_.outputs, expression.index);
    case Kind::gradient: {
      if (expression.index >= gradients_.size())
        return wrong("it has no output " + std::to_string(expression.index));
      Value& gradient = gradients_[expression.index];
      if (gradient.index == TN_ABSENT) gradient = filled(value(node_.outputs, expression.index), 0);
      return gradient;
    }
    case Kind::number: {
      std::vector<Value>& made = made_[words(expression.number)];
      if (made.empty())
        made = {graph_.constant({graph_.spec(value(node_.outputs, 0)).dtype, {}}, expression.number)};
      return made.front();
    }
    case Kind::word:
      return wrong("'" + expression.word + "' is no value");
    case Kind::call:
      return call(expression);
  }
  return {};
}

GraphValue GradientMaker::call(const Expression& e) {
  if (e.word == "choose") return make(e.arguments[integer(e.arguments[0].word) != 0 ? 1 : 2]);
  // part(dy0) is another one for each input.
  const std::string key = e.word == "part" ? e.text + std::to_string(input_) : e.text;
  if (const auto known = made_.find(key); known != made_.end()) return known->second[e.index];
  std::vector<Value> in;
  for (const Expression& argument : e.arguments) in.push_back(make(argument));
  std::vector<Value> out;
  const Value second = in.size() > 1 ? in[1] : Value{};
  if (e.word == "unbroadcast") out = {unbroadcast(in[0], second)};
  if (e.word == "unreduce") out = {unreduce(in[0], second)};
  if (e.word == "zeros") out = {filled(in[0], 0)};
  if (e.word == "ones") out = {filled(in[0], 1)};
  if (e.word == "part") out = {part(in[0])};
  if (e.word == "unslice") out = {unslice(in[0], second)};
  if (e.word == "unpad") out = {unpad(in[0], second)};
  if (out.empty()) {
    const auto op = op_from(e.word);
    if (!op.ok()) return wrong(std::string(op.message()));
    if (*op == Op::matmul) flatten(in);
    Graph::Attributes given;
    for (const AttributeRule& rule : e.attributes)
      given.push_back({rule.name, attribute(rule.source.front())});
    out = graph_.node(*op, std::span<const Value>(in), std::move(given));
  }
  if (e.index >= out.size()) return wrong(e.text + " has no output " + std::to_string(e.index));
  return made_.emplace(key, std::move(out)).first->second[e.index];
}

// The gradient of a matrix that a batch was multiplied with: one product over the rows of all, where the table has one for each
// of the batch and a sum of them.
void GradientMaker::flatten(std::vector<Value>& operands) {
  const bool is_weight = node_.op == Op::matmul && input_ == 1 && dims(value(node_.inputs, 1)).size() == 2;
  if (!is_weight || integer("transpose_a") != 0) return;
  for (Value& operand : operands) {
    const Ints given = dims(operand);
    if (given.size() > 2)
      operand = graph_.reshape(operand, {product(given, 0, given.size() - 1), given.back()});
  }
}

const AttributeValue& GradientMaker::own(const std::string& name) {
  for (const Attribute& attribute : node_.attributes) {
    if (attribute.name == name) return attribute.value;
  }
  static const AttributeValue none;
  wrong("it has no attribute '" + name + "'");
  return none;
}

int64_t GradientMaker::integer(const std::string& name) {
  const int64_t* value = std::get_if<int64_t>(&own(name));
  if (value == nullptr) wrong("attribute '" + name + "' is no int");
  return value == nullptr ? 0 : *value;
}

const std::vector<int64_t>& GradientMaker::integers(const std::string& name) {
  static const Ints none;
  const Ints* values = std::get_if<Ints>(&own(name));
  if (values == nullptr) wrong("attribute '" + name + "' is no list of ints");
  return values == nullptr ? none : *values;
}

AttributeValue GradientMaker::attribute(const Expression& source) {
  if (source.kind == Kind::word) return own(source.word);
  if (source.kind == Kind::call) return computed(source);
  const auto whole = static_cast<int64_t>(source.number);
  if (source.kind == Kind::number && static_cast<double>(whole) == source.number) return whole;
  if (source.kind == Kind::number) return source.number;
  wrong("an attribute is no value");
  return int64_t{0};
}

AttributeValue GradientMaker::computed(const Expression& source) {
  const std::string& what = source.word;
  const std::string& word = source.arguments[0].word;
  if (what == "not") return int64_t{integer(word) == 0};
  if (what == "list") return Ints{integer(word)};
  if (what == "inverse") {
    const Ints& order = integers(word);
    Ints out(order.size());
    for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return out;
  }
  const TensorSpec spec = graph_.spec(make(source.arguments[0]));
  if (what == "shape") return spec.dims;
  if (what == "dtype") return spec.dtype;
  if (source.arguments.size() == 2 && what == "dim") {
    const auto i = static_cast<size_t>(source.arguments[1].number);
    if (i < spec.dims.size()) return spec.dims[i];
  }
  if (source.arguments.size() == 2 && what == "share") {
    const auto of = static_cast<double>(graph_.spec(make(source.arguments[1])).elements());
    return of == 0 ? 0.0 : static_cast<double>(spec.elements()) / of;
  }
  wrong(source.text + " is not known");
  return int64_t{0};
}

GraphValue GradientMaker::filled(Value like, double value) {
  return graph_.constant(graph_.spec(like), value);
}

GraphValue GradientMaker::unbroadcast(Value from, Value to) {
  const Ints given = dims(from), wanted = dims(to);
  if (given == wanted) return from;
  if (given.size() < wanted.size()) return wrong("unbroadcast has nothing to sum");
  const size_t more = given.size() - wanted.size();
  Ints axes;
  for (size_t i = 0; i < given.size(); ++i) {
    if (i < more || given[i] != wanted[i - more]) axes.push_back(static_cast<int64_t>(i));
  }
  const Value summed = graph_.sum(from, std::move(axes));
  return dims(summed) == wanted ? summed : graph_.reshape(summed, wanted);
}

GraphValue GradientMaker::unreduce(Value from, Value to) {
  const Ints wanted = dims(to);
  Ints kept = wanted;
  for (const int64_t axis : integers("axes")) kept[static_cast<size_t>(axis)] = 1;
  if (dims(from) != kept) from = graph_.reshape(from, kept);
  return kept == wanted ? from : graph_.broadcast_to(from, wanted);
}

GraphValue GradientMaker::part(Value from) {
  const auto axis = static_cast<size_t>(integer("axis"));
  Ints begin(dims(from).size(), 0), end = dims(from), step(dims(from).size(), 1);
  for (uint32_t i = 0; i < input_; ++i) begin[axis] += dims(value(node_.inputs, i))[axis];
  end[axis] = begin[axis] + dims(value(node_.inputs, input_))[axis];
  return graph_.slice(from, std::move(begin), std::move(end), std::move(step));
}

// [.., n, ..] to [.., n·step, ..] with zeros behind each element.
GraphValue GradientMaker::spread(Value from, size_t dim, int64_t step) {
  Ints shape = dims(from);
  const int64_t outer = product(shape, 0, dim), inner = product(shape, dim + 1, shape.size());
  const Value apart = graph_.reshape(from, {outer * shape[dim], 1, inner});
  shape[dim] *= step;
  return graph_.reshape(graph_.pad(apart, {0, 0, 0}, {0, step - 1, 0}), std::move(shape));
}

GraphValue GradientMaker::unslice(Value from, Value to) {
  const Ints wanted = dims(to), begin = integers("begin"), end = integers("end"), step = integers("step");
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] > 1 && dims(from)[i] != 0) from = spread(from, i, step[i]);
  }
  Ints last = dims(from), after(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    last[i] = std::min(last[i], end[i] - begin[i]);
    after[i] = wanted[i] - begin[i] - last[i];
  }
  if (last != dims(from)) from = graph_.slice(from, Ints(last.size(), 0), last, Ints(last.size(), 1));
  return last == wanted ? from : graph_.pad(from, begin, std::move(after));
}

GraphValue GradientMaker::unpad(Value from, Value to) {
  const Ints begin = integers("before");
  Ints end = dims(to);
  for (size_t i = 0; i < end.size(); ++i) end[i] += begin[i];
  return graph_.slice(from, begin, std::move(end), Ints(begin.size(), 1));
}

}  // namespace tenon::graph
