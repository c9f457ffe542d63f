// SPDX-License-Identifier: Apache-2.0
// buffer.hpp: an operand in the device's memory, with borders around it and known bytes between its elements.
//
// Invariant: what was written outside the elements is found, whoever wrote it.
#pragma once

#include "conformance/guard.hpp"
#include "conformance/ops/trial.hpp"

namespace tenon::conform {

struct Buffer {
  const Operand* operand = nullptr;
  std::vector<uint64_t> at{};  // places of the elements, in logical order
  Guarded memory{};
  Bytes before{};  // what it held when the kernel was launched
};

// Memory for an operand, poisoned, moved and aligned as it says. [stream's thread; may fail]
Result<Buffer> buffer_of(const Device& device, const Stream& stream, const Operand& operand);
// The bytes of an operand that holds `values`; gaps are filled. [any-thread; may throw bad_alloc]
Bytes image_of(const Operand& operand, const std::vector<uint64_t>& at, const Tensor& values);
// The elements in `bytes`. [any-thread; may throw bad_alloc]
Tensor tensor_of(const Buffer& buffer, const Bytes& bytes);
// Every byte that belongs to no element is what it was. [any-thread; may fail]
Status untouched(const Buffer& buffer, const Bytes& after, const std::string& where);
// What is to be said of two runs on the same numbers: "", or a remark; a failure where the vendor declares that bits
// repeat. [any-thread; may fail]
Result<std::string> wavering(Determinism declared, bool same);

}  // namespace tenon::conform
