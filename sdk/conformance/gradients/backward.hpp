// SPDX-License-Identifier: Apache-2.0
// backward.hpp: a row of gradients.def carried out, every op of it by a kernel of the plugin.
//
// What only renames dims (reshape) or fills (zeros, ones, constants) is done on the host.
// Invariant: equal parts of one node's expressions are computed once.
#pragma once

#include "conformance/gradients/expression.hpp"
#include "conformance/gradients/program.hpp"

#include <map>

namespace tenon::conform {

class Backward {
 public:
  // The node, its inputs and outputs, and the gradients of its outputs (empty tensors: zero). All outlive this.
  Backward(Context& t, const Device& device, const Stream& stream, const Trial& node,
           const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
           const std::vector<Tensor>& gradients)
      : t_(t),
        device_(device),
        stream_(stream),
        node_(node),
        inputs_(inputs),
        outputs_(outputs),
        gradients_(gradients) {}

  // The gradient of one input. TN_UNSUPPORTED with the plugin's reason where it lacks an op of the row; TN_INTERNAL for a
  // kernel that fails, or a row that the kit cannot read. [case's thread; may fail]
  Result<Tensor> of_input(uint32_t input, const Expression& expression);

 private:
  using Values = std::vector<Tensor>;
  static Status unread(const std::string& what);
  Result<Tensor> make(const Expression& e);
  Result<Tensor> call(const Expression& e);
  Result<Values> compute(const Expression& e);
  Result<Values> run(std::string_view op, const Values& in, std::vector<AttributeValue> attributes);
  Result<Tensor> run_one(std::string_view op, const Tensor& in, std::vector<AttributeValue> attributes);
  Result<AttributeValue> attribute(const std::string& name, const Expression& from);
  Result<Tensor> unbroadcast(const Tensor& from, const std::vector<int64_t>& to);
  Result<Tensor> unreduce(const Tensor& from, const std::vector<int64_t>& to);
  Result<Tensor> part(const Tensor& from);
  Result<Tensor> unslice(Tensor from, const std::vector<int64_t>& to);
  Result<Tensor> unpad(const Tensor& from, const std::vector<int64_t>& to);
  Result<Tensor> spread(const Tensor& from, size_t dim, int64_t step);

  Context& t_;
  const Device& device_;
  const Stream& stream_;
  const Trial& node_;
  const Values &inputs_, &outputs_, &gradients_;
  uint32_t input_ = 0;
  std::map<std::string, Values> made_{};
};

}  // namespace tenon::conform
