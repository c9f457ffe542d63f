// SPDX-License-Identifier: Apache-2.0
// checks.cpp: see checks.hpp.
#include "loader/checks.hpp"

#include "base/text.hpp"
#include "loader/order.hpp"

namespace tenon::loader {
namespace {

// Bounds that keep every product of the room far from 2⁶⁴.
constexpr uint64_t most_samples = uint64_t{1} << 40, most_batch = 1 << 20, most_depth = 1 << 10;
constexpr uint32_t most_ranks = 1 << 20, most_workers = 1 << 10;

Status bad(const std::string& text) { return Status(TN_INVALID, "loader: " + text); }

Status within(const char* option, uint64_t value, uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return bad(std::string(option) + " is " + std::to_string(value) + "; from 1 to " + std::to_string(most) +
             " will do");
}

// A batch of it is no larger than a tensor may be.
Status check_size(const std::string& name, const std::vector<int64_t>& dims, uint64_t batch) {
  uint64_t elements = batch;
  for (const int64_t dim : dims) {
    if (dim < 0) return bad(name + " has a dim of " + std::to_string(dim));
    if (dim == 0) return {};
    if (elements >= Graph::element_limit / static_cast<uint64_t>(dim))
      return bad(name + " has 2^40 elements or more in a batch of " + std::to_string(batch) +
                 ": check its dims, or take a smaller batch");
    elements *= static_cast<uint64_t>(dim);
  }
  return {};
}

Status check_tensor(const Dataset& dataset, size_t index, uint64_t batch) {
  const Dataset::Tensor& tensor = dataset.tensors[index];
  const std::string name = "tensor " + base::quoted(tensor.name);
  if (tensor.name.empty()) return bad("tensor " + std::to_string(index) + " has no name");
  for (size_t i = 0; i < index; ++i) {
    if (dataset.tensors[i].name == tensor.name)
      return bad("two tensors are called " + base::quoted(tensor.name));
  }
  if (bits(tensor.spec.dtype) < 8) return bad(name + " has no whole bytes to an element: store it as u8");
  if (!tensor.spec.strides.empty()) return bad(name + " has strides; samples are dense: leave them out");
  if (tensor.spec.dims.size() >= TN_MAX_RANK)
    return bad(name + " has " + std::to_string(tensor.spec.dims.size()) +
               " dims, and a batch has one more: at most " + std::to_string(TN_MAX_RANK));
  return check_size(name, tensor.spec.dims, batch);
}

Status check_steps(const Dataset& dataset, const LoaderOptions& options) {
  if (Order(dataset.samples, options).steps() > 0) return {};
  return bad("an epoch of " + base::counted(dataset.samples, "sample") + " has no step of " +
             std::to_string(options.ranks) + " × " + std::to_string(options.batch) +
             " with uneven = fixed: take a smaller batch, pad or join");
}

}  // namespace

Status check(const Dataset& dataset, const LoaderOptions& options) {
  TN_TRY(within("the number of samples", dataset.samples, most_samples));
  if (!dataset.read) return bad("the data set has no function that reads a sample");
  if (dataset.tensors.empty()) return bad("samples have no tensors");
  TN_TRY(within("batch", options.batch, most_batch));
  for (size_t i = 0; i < dataset.tensors.size(); ++i) TN_TRY(check_tensor(dataset, i, options.batch));
  TN_TRY(within("ranks", options.ranks, most_ranks));
  if (options.rank >= options.ranks)
    return bad("rank is " + std::to_string(options.rank) + ", and of " + std::to_string(options.ranks) +
               " ranks the last is " + std::to_string(options.ranks - 1));
  TN_TRY(within("depth", options.depth, most_depth));
  TN_TRY(within("workers", options.workers, most_workers));
  if (options.timeout.count() < 0) return bad("timeout is negative; tenon::forever waits without end");
  return check_steps(dataset, options);
}

}  // namespace tenon::loader
