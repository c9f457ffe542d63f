// SPDX-License-Identifier: Apache-2.0
// program.hpp: a fragment compiled: its nodes in order, and where each tensor lives while they run.
//
// Invariant: a program never changes. Every value is rounded to its tensor's dtype between nodes, so a group gives what its
// ops give one by one, bit for bit. Outputs with an in-place partner are made in the workspace and arrive last.
#pragma once

#include "node.hpp"

#include <tenon/result.hpp>

#include <memory>
#include <span>

namespace tenon::sim {

class Program {
 public:
  // Of a fragment that rules.hpp has found good. [any-thread; may block; cannot fail]
  explicit Program(const author::FragmentView& fragment);

  uint64_t workspace_bytes() const noexcept { return workspace_bytes_; }
  // The bytes of output 0 in `bindings`; empty when there is none.
  std::span<std::byte> first_output(std::span<std::byte* const> bindings) const noexcept;
  void run(std::span<std::byte* const> bindings, std::byte* workspace) const;

 private:
  enum class Home { binding, workspace, constant };
  struct Tensor {
    Shape shape{};
    Home home = Home::workspace;
    uint64_t at = 0;  // binding's number, or offset
    std::vector<std::byte> constant{};
  };
  // What is copied when all nodes have run.
  struct Arrival {
    uint32_t tensor;
    uint64_t binding;
    Shape shape;  // of the binding: a constant is kept dense
  };
  std::byte* data(const Tensor& tensor, std::span<std::byte* const> bindings, std::byte* workspace) const;
  Operand operand(uint32_t index, std::span<std::byte* const> bindings, std::byte* workspace) const;

  std::vector<Tensor> tensors_{};
  std::vector<Node> nodes_{};
  std::vector<Arrival> arrivals_{};
  std::vector<uint32_t> outputs_{};
  uint64_t inputs_ = 0;
  uint64_t workspace_bytes_ = 0;
};

}  // namespace tenon::sim
