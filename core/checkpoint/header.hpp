// SPDX-License-Identifier: Apache-2.0
// header.hpp: what stands in a checkpoint before the tensors' bytes: their names, specs, places and checksums, and the notes.
//
// Text and data only, no file. Invariant: in a Header that was laid out or read, tensors stand in the order of their bytes, each
// begins where the one before it ends, and each has as many bytes as its spec.
#pragma once

#include <tenon/checkpoint.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::checkpoint {

inline constexpr uint64_t length_bytes = 8;  // of the number at the front, which is the header's length
inline constexpr uint64_t most_header_bytes = 100'000'000;  // the format's own limit
inline constexpr uint64_t alignment = 256;  // of the data in the file, and of each tensor in memory

// What Tenon itself says among the notes.
inline constexpr std::string_view own_notes = "tenon.";
inline constexpr std::string_view digest_note =
    "tenon.sha256";  // of all before the data; with ".NAME", of a tensor
inline constexpr std::string_view format_note = "tenon.format";
inline constexpr std::string_view format = "tenon.checkpoint/1";

struct Placed {
  CheckpointTensor tensor;
  uint64_t begin = 0, end = 0;  // in the data
  std::string digest{};         // SHA-256 of the bytes in hex; "": not known
};

struct Header {
  std::vector<Placed> tensors{};
  CheckpointNotes notes{};
  bool own = false;  // read: it has Tenon's checksums
};

// Places for `tensors`: the widest types first, then by name, so that none begins inside an element of its own. TN_INVALID naming
// the tensor or note that cannot be written, and why. [any-thread; does not block; may fail]
Result<Header> lay_out(std::span<const CheckpointTensor> tensors, const CheckpointNotes& notes);

// All of a file before its data, as long for one set of digests as for another. [any-thread; does not block; cannot fail]
std::string head_of(const Header& header);

// Whether `head`, a file's first bytes up to its data, begins as head_of begins; and whether its checksum is that of its bytes.
// [any-thread; does not block; cannot fail]
bool is_own_head(std::string_view head) noexcept;
bool is_whole_head(std::string_view head);

// What `head` says, in a file of `file_bytes`. TN_INVALID with the byte or the tensor that is wrong. The tensors' bytes are yet to
// be read. [any-thread; does not block; may fail]
Result<Header> read_header(std::string_view head, uint64_t file_bytes);

// "f32[2,3]" [any-thread; does not block; cannot fail]
std::string words(const TensorSpec& spec);

}  // namespace tenon::checkpoint
