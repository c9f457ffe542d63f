// SPDX-License-Identifier: Apache-2.0
// checkpoint.cpp: one checkpoint: to a file, from a file, and what is in it.
//
// Invariant: the header is written last, of digests of the very bytes that were written.
#include <tenon/checkpoint.hpp>

#include "base/file.hpp"
#include "base/file_stream.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "checkpoint/header.hpp"
#include "checkpoint/load.hpp"

#include <algorithm>

namespace tenon {
namespace {

using checkpoint::Header;
using checkpoint::piece_bytes;
using checkpoint::Placed;

Status write_tensor(base::FileWriter& file, uint64_t at, Placed& placed) {
  base::Sha256 hash;
  for (auto rest = placed.tensor.bytes; !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), piece_bytes));
    hash.add(piece);
    TN_TRY(file.write(at, piece));
    at += piece.size();
    rest = rest.subspan(piece.size());
  }
  placed.digest = base::hex(hash.finish());
  return {};
}

}  // namespace

Status Checkpoint::write(const std::string& path, std::span<const CheckpointTensor> tensors,
                         const CheckpointNotes& notes) {
  Header header = TN_TRY(checkpoint::lay_out(tensors, notes));
  const std::string name = base::name_of(path);
  base::remove_partials(base::folder_of(path), [&](std::string_view left) { return left == name; });
  auto file = TN_TRY(base::FileWriter::create(path));
  const uint64_t data_at = checkpoint::head_of(header).size();
  for (Placed& placed : header.tensors) TN_TRY(write_tensor(file, data_at + placed.begin, placed));
  const std::string head = checkpoint::head_of(header);
  TN_TRY(file.write(0, std::as_bytes(std::span(head))));
  return file.commit();
}

Result<Checkpoint> Checkpoint::read(const std::string& path, const CheckpointReadOptions& options) {
  auto file = TN_TRY(base::FileReader::open(path));
  const checkpoint::Source source{.name = path,
                                  .bytes = file.bytes(),
                                  .next = [&](std::span<std::byte> into) { return file.read(into); }};
  return checkpoint::load(source, options);
}

std::span<const CheckpointTensor> Checkpoint::tensors() const noexcept { return state_->tensors; }

const CheckpointNotes& Checkpoint::notes() const noexcept { return state_->notes; }

const CheckpointTensor* Checkpoint::find(std::string_view name) const noexcept {
  const auto& all = state_->tensors;
  const auto found = std::lower_bound(
      all.begin(), all.end(), name,
      [](const CheckpointTensor& tensor, std::string_view key) { return tensor.name < key; });
  return found != all.end() && found->name == name ? &*found : nullptr;
}

Result<std::span<const std::byte>> Checkpoint::bytes(std::string_view name, const TensorSpec& spec) const {
  const CheckpointTensor* const found = find(name);
  if (found == nullptr) {
    std::vector<std::string_view> names;
    for (const CheckpointTensor& tensor : state_->tensors) names.push_back(tensor.name);
    return Status(TN_NOT_FOUND, "the checkpoint has no tensor " + base::quoted(name) +
                                    base::did_you_mean(name, names) + "; it has " +
                                    base::counted(names.size(), "tensor"));
  }
  if (found->spec.dtype != spec.dtype || found->spec.dims != spec.dims)
    return Status(TN_MISMATCH, "tensor " + base::quoted(name) + " is " + checkpoint::words(found->spec) +
                                   " in the checkpoint, and " + checkpoint::words(spec) +
                                   " here: it is of another model, or another precision");
  return found->bytes;
}

}  // namespace tenon
