// SPDX-License-Identifier: Apache-2.0
// load.hpp: a checkpoint from bytes that come one after the other, from a file or from memory.
#pragma once

#include <tenon/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace tenon {

namespace checkpoint {

inline constexpr size_t piece_bytes = 1 << 20;  // stays in the cache between hashing and reading or writing

struct Source {
  std::string name{};  // for messages
  uint64_t bytes = 0;
  std::function<Status(std::span<std::byte>)> next{};  // fills the span with the next bytes, or says why not
};

// All of `source`, as Checkpoint::read. [one thread; blocks; may fail]
Result<Checkpoint> load(const Source& source, const CheckpointReadOptions& options);

struct FreeAligned {
  void operator()(std::byte* bytes) const noexcept;
};
using Memory = std::unique_ptr<std::byte[], FreeAligned>;

}  // namespace checkpoint

struct Checkpoint::State {
  std::vector<CheckpointTensor> tensors{};  // by name, their bytes in `memory`
  CheckpointNotes notes{};
  checkpoint::Memory memory{};
};

struct Checkpoint::Access {
  static Checkpoint make(State&& state) {
    return Checkpoint(std::make_shared<const State>(std::move(state)));
  }
};

}  // namespace tenon
