// SPDX-License-Identifier: Apache-2.0
// checkpoint_bytes.hpp: checkpoints as bytes in memory, by the same code that reads and lays out files.
#pragma once

#include "base/sha256.hpp"
#include "base/text.hpp"
#include "checkpoint/header.hpp"
#include "checkpoint/load.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace tenon::test {

// What Checkpoint::read says to a file of these bytes.
inline Result<Checkpoint> read_bytes(std::string_view bytes, const CheckpointReadOptions& options = {}) {
  const checkpoint::Source source{.name = "x.safetensors",
                                  .bytes = bytes.size(),
                                  .next = [rest = bytes](std::span<std::byte> into) mutable -> Status {
                                    if (into.size() > rest.size())
                                      return {TN_INTERNAL, "it reads past the end"};
                                    std::ranges::copy(std::as_bytes(std::span(rest)).first(into.size()),
                                                      into.begin());
                                    rest.remove_prefix(into.size());
                                    return {};
                                  }};
  return checkpoint::load(source, options);
}

// The file that Checkpoint::write makes of these.
inline Result<std::string> written_bytes(std::span<const CheckpointTensor> tensors,
                                         const CheckpointNotes& notes = {}) {
  checkpoint::Header header = TN_TRY(checkpoint::lay_out(tensors, notes));
  std::string data;
  for (checkpoint::Placed& placed : header.tensors) {
    const auto bytes = placed.tensor.bytes;
    placed.digest = base::hex(base::sha256(bytes));
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return checkpoint::head_of(header) + data;
}

}  // namespace tenon::test
