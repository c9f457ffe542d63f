// SPDX-License-Identifier: Apache-2.0
// buffer.cpp: elements into memory and back.
#include "conformance/ops/buffer.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

constexpr std::byte gap{0xB7};  // between the elements of a strided input

}  // namespace

Bytes image_of(const Operand& operand, const std::vector<uint64_t>& at, const Tensor& values) {
  const uint64_t size = element_bytes(operand.dtype);
  Bytes out(extent(operand) * size, gap);
  for (uint64_t i = 0; i < at.size(); ++i) encode(operand.dtype, values.at[i], out.data() + at[i] * size);
  return out;
}

Result<Buffer> buffer_of(const Device& device, const Stream& stream, const Operand& operand) {
  const uint64_t size = element_bytes(operand.dtype);
  Buffer out{.operand = &operand, .at = places(operand.dims, strides_of(operand))};
  const uint64_t skew = operand.alignment != 0 ? Guarded::skew_to(operand.alignment) : operand.skew * size;
  out.memory = TN_TRY(Guarded::make(device, stream, extent(operand) * size, skew));
  return out;
}

Tensor tensor_of(const Buffer& buffer, const Bytes& bytes) {
  Tensor out{.dtype = buffer.operand->dtype, .dims = buffer.operand->dims};
  for (const uint64_t at : buffer.at)
    out.at.push_back(decode(out.dtype, bytes.data() + at * element_bytes(out.dtype)));
  return out;
}

Status untouched(const Buffer& buffer, const Bytes& after, const std::string& where) {
  const uint64_t size = element_bytes(buffer.operand->dtype);
  std::vector<bool> written(after.size());
  for (const uint64_t at : buffer.at)
    std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(at * size), size, true);
  for (uint64_t i = 0; i < after.size(); ++i) {
    if (written[i] || after[i] == buffer.before[i]) continue;
    return Status(TN_INTERNAL, words(where, ": byte ", i, " lies between its elements and was written"));
  }
  return {};
}

Result<std::string> wavering(Determinism declared, bool same) {
  if (same || declared == Determinism::varies) return std::string();
  const std::string story = "two runs on the same numbers differ in their bits";
  if (declared == Determinism::bitwise)
    return Status(TN_INTERNAL, story + ", and the vendor declares determinism = \"bitwise\"");
  return story + ": where that is meant, declare determinism = \"varies\" in capabilities.toml";
}

}  // namespace tenon::conform
