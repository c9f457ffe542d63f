// SPDX-License-Identifier: Apache-2.0
// tensors.hpp: tensors to save, and how two checkpoints are compared.
#pragma once

#include <tenon/checkpoint.hpp>

#include "support/checkpoint_bytes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::test {

// Tensors with bytes of their own: each byte is told by the tensor's number and its place.
class Tensors {
 public:
  Tensors& add(std::string name, TensorSpec spec) {
    std::vector<std::byte>& bytes = bytes_.emplace_back(spec.bytes());
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(31 * bytes_.size() + 7 * i + salt_);
    all_.push_back({std::move(name), std::move(spec), bytes});
    return *this;
  }
  // The bytes of another step.
  explicit Tensors(unsigned salt = 0) : salt_(salt) {}
  std::span<const CheckpointTensor> all() const noexcept { return all_; }

 private:
  unsigned salt_;
  std::deque<std::vector<std::byte>> bytes_{};
  std::vector<CheckpointTensor> all_{};
};

// A weight, a count of rank 0 and an empty table; each `salt` gives other bytes.
inline Tensors small(unsigned salt = 0) {
  Tensors tensors(salt);
  tensors.add("fc.w", {f32, {2, 3}}).add("steps", {i64, {}}).add("rows", {bf16, {0, 8}});
  return tensors;
}

// Whether `read` holds exactly `tensors`.
inline bool holds(const Checkpoint& read, std::span<const CheckpointTensor> tensors) {
  if (read.tensors().size() != tensors.size()) return false;
  return std::ranges::all_of(tensors, [&](const CheckpointTensor& tensor) {
    const auto bytes = read.bytes(tensor.name, tensor.spec);
    return bytes.ok() && std::ranges::equal(*bytes, tensor.bytes);
  });
}

inline bool holds(const Result<Checkpoint>& read, std::span<const CheckpointTensor> tensors) {
  if (!read.ok()) FAIL_CHECK(read.message());
  return read.ok() && holds(*read, tensors);
}

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline bool has(std::string_view text, std::string_view part) {
  CAPTURE(std::string(text));
  return text.find(part) != std::string_view::npos;
}

// A safetensors file of another program: this header, and this many bytes of data.
inline std::string foreign(std::string_view json, size_t data_bytes) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return file.append(json).append(data_bytes, 'x');
}

}  // namespace tenon::test
