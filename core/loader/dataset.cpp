// SPDX-License-Identifier: Apache-2.0
// dataset.cpp: data sets that lie in memory.
#include <tenon/loader.hpp>

#include "base/text.hpp"

#include <cstring>

namespace tenon {
namespace {

// Of how many samples a tensor's bytes are.
Result<uint64_t> samples_of(const MemoryTensor& tensor) {
  const uint64_t each = tensor.spec.bytes();
  if (each == 0)
    return Status(TN_INVALID, "memory_dataset: a sample of tensor " + base::quoted(tensor.name) +
                                  " has no bytes, so nothing tells how many there are");
  if (tensor.bytes.empty() || tensor.bytes.size() % each != 0)
    return Status(TN_INVALID, "memory_dataset: tensor " + base::quoted(tensor.name) + " has " +
                                  base::counted(tensor.bytes.size(), "byte") +
                                  ", which are no whole number of samples of " + std::to_string(each));
  return tensor.bytes.size() / each;
}

}  // namespace

Result<Dataset> memory_dataset(std::vector<MemoryTensor> tensors) {
  if (tensors.empty()) return Status(TN_INVALID, "memory_dataset: there is no tensor");
  Dataset out;
  out.samples = TN_TRY(samples_of(tensors.front()));
  for (const MemoryTensor& tensor : tensors) {
    const uint64_t samples = TN_TRY(samples_of(tensor));
    if (samples != out.samples)
      return Status(TN_INVALID, "memory_dataset: tensor " + base::quoted(tensor.name) + " has " +
                                    base::counted(samples, "sample") + ", tensor " +
                                    base::quoted(tensors.front().name) + " has " +
                                    std::to_string(out.samples));
    out.tensors.push_back({tensor.name, tensor.spec});
  }
  const auto kept = std::make_shared<const std::vector<MemoryTensor>>(std::move(tensors));
  out.read = [kept](uint64_t sample, Dataset::Bytes to) -> Status {
    for (size_t i = 0; i < to.size(); ++i)
      std::memcpy(to[i].data(), (*kept)[i].bytes.data() + sample * to[i].size(), to[i].size());
    return {};
  };
  return out;
}

}  // namespace tenon
