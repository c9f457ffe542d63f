// SPDX-License-Identifier: Apache-2.0
// load.cpp: see load.hpp.
//
// Invariant: memory is taken only for what the source is known to have, and nothing is given out before its checksum was compared.
#include "checkpoint/load.hpp"

#include "base/sha256.hpp"
#include "base/text.hpp"
#include "checkpoint/header.hpp"

#include <algorithm>

namespace tenon::checkpoint {
namespace {

uint64_t room_for(const Placed& placed) noexcept {
  return (placed.end - placed.begin + alignment - 1) / alignment * alignment;
}

class Loading {
 public:
  Loading(const Source& source, bool foreign_ok) : source_(source), foreign_ok_(foreign_ok) {}
  Result<Checkpoint> run();

 private:
  Result<std::string> read_head();
  Status check_origin(std::string_view head, const Header& header) const;
  Status read_tensors(Header& header, Checkpoint::State& state) const;
  Status read_tensor(Placed& placed, std::span<std::byte> into) const;
  Status refused(std::string_view why) const { return {TN_INVALID, source_.name + ": " + std::string(why)}; }

  const Source& source_;
  bool foreign_ok_;
};

Result<Checkpoint> Loading::run() {
  const std::string head = TN_TRY(read_head());
  if (is_own_head(head) && !is_whole_head(head))
    return refused("its header, bytes 0 to " + std::to_string(head.size()) +
                   ", is not what its checksum says: it is damaged, take another copy");
  auto header = read_header(head, source_.bytes);
  if (!header.ok()) return refused(header.message());
  TN_TRY(check_origin(head, *header));
  Checkpoint::State state{.notes = std::move(header->notes)};
  TN_TRY(read_tensors(*header, state));
  return Checkpoint::Access::make(std::move(state));
}

// The length at the front, and as many bytes.
Result<std::string> Loading::read_head() {
  if (source_.bytes < length_bytes)
    return refused("it has " + base::counted(source_.bytes, "byte") +
                   ": it was cut off, or is no safetensors file");
  std::string head(length_bytes, '\0');
  TN_TRY(source_.next(std::as_writable_bytes(std::span(head))));
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= uint64_t{static_cast<unsigned char>(head[i])} << (8 * i);
  if (length > most_header_bytes)
    return refused("it is no safetensors file: its first 8 bytes say that its header takes " +
                   std::to_string(length) + " bytes, at most " + std::to_string(most_header_bytes) +
                   " can be");
  if (length > source_.bytes - length_bytes)
    return refused("its header ends at byte " + std::to_string(length_bytes + length) +
                   ", and the file at byte " + std::to_string(source_.bytes) +
                   ": it was cut off, or is no safetensors file");
  head.resize(length_bytes + length);
  TN_TRY(source_.next(std::as_writable_bytes(std::span(head)).subspan(length_bytes)));
  return head;
}

Status Loading::check_origin(std::string_view head, const Header& header) const {
  if (header.own && !is_own_head(head))
    return refused(
        "its header was changed since Tenon wrote it: take another copy, or remove its notes that begin with "
        "'tenon.'");
  if (!header.own && !foreign_ok_)
    return refused("another program wrote it, without checksums: to read it all the same set foreign_ok");
  return {};
}

Status Loading::read_tensors(Header& header, Checkpoint::State& state) const {
  uint64_t room = 0;
  for (const Placed& placed : header.tensors) room += room_for(placed);
  state.memory.reset(new (std::align_val_t{alignment}, std::nothrow) std::byte[std::max<uint64_t>(room, 1)]);
  if (!state.memory)
    return {TN_NO_MEMORY,
            source_.name + ": no " + base::bytes_in_words(room) + " of host memory for its tensors"};
  uint64_t at = 0;
  for (Placed& placed : header.tensors) {
    TN_TRY(read_tensor(placed, {state.memory.get() + at, placed.end - placed.begin}));
    at += room_for(placed);
    state.tensors.push_back(std::move(placed.tensor));
  }
  std::sort(state.tensors.begin(), state.tensors.end(),
            [](const CheckpointTensor& a, const CheckpointTensor& b) { return a.name < b.name; });
  return {};
}

Status Loading::read_tensor(Placed& placed, std::span<std::byte> into) const {
  base::Sha256 hash;
  for (auto rest = into; !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), piece_bytes));
    TN_TRY(source_.next(piece));
    if (!placed.digest.empty()) hash.add(piece);
    rest = rest.subspan(piece.size());
  }
  if (!placed.digest.empty() && base::hex(hash.finish()) != placed.digest)
    return refused("the bytes of tensor " + base::quoted(placed.tensor.name) +
                   " are not what its checksum says: it is damaged, take another copy");
  placed.tensor.bytes = into;
  return {};
}

}  // namespace

void FreeAligned::operator()(std::byte* bytes) const noexcept {
  ::operator delete[](bytes, std::align_val_t{alignment});
}

Result<Checkpoint> load(const Source& source, const CheckpointReadOptions& options) {
  return Loading(source, options.foreign_ok).run();
}

}  // namespace tenon::checkpoint
