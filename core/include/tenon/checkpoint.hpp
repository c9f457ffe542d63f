// SPDX-License-Identifier: Apache-2.0
// checkpoint.hpp: named tensors and notes as one file, written whole or not at all, read back whole or refused.
//
//   auto folder = TN_TRY(tenon::CheckpointFolder::open("run7", 3));
//   TN_TRY(folder.write(step, {{"w", {f32, {64, 32}}, bytes_of_w}, …}, {{"loss_scale", "1024"}}));
//   …
//   const auto last = TN_TRY(folder.newest());
//   const auto w = TN_TRY(last.checkpoint.bytes("w", {f32, {64, 32}}));
//
// A file is safetensors with checksums (docs/checkpoint.md), so any reader of that format opens it. Equal contents are equal
// bytes. Invariant: whenever its writer is killed, a path holds the old checkpoint or the new one; and no byte is given out
// that is not the one written.
#pragma once

#include <tenon/export.hpp>
#include <tenon/fragment.hpp>
#include <tenon/result.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

// A tensor of a checkpoint. Its bytes are in host memory and belong to whoever made this.
struct CheckpointTensor {
  std::string name{};  // UTF-8, unique in its checkpoint
  TensorSpec spec{};   // dense; any type but i4 and u4, which the format has no name for
  std::span<const std::byte> bytes{};
};

// What else is to be known on the way back: step, loss scale, seed. UTF-8; names that begin with "tenon." are the library's.
using CheckpointNotes = std::map<std::string, std::string>;

struct CheckpointReadOptions {
  bool foreign_ok = false;  // safetensors of other programs, too, which have no checksums
};

// A checkpoint that was read, in host memory; copies share it.
class TN_API Checkpoint {
 public:
  // Puts a file at `path` in one step, and on the disk: after a failure, or when the process is killed, what was there is there
  // still. What a killed write left beside it is removed. The bytes are read where they are, once; nothing may change them
  // meanwhile. TN_INVALID naming the tensor or note and what is wrong with it; TN_NOT_FOUND for a missing folder, TN_INVALID for
  // a full disk and the like, with the path and the system's words. [any-thread; blocks; may fail]
  static Status write(const std::string& path, std::span<const CheckpointTensor> tensors,
                      const CheckpointNotes& notes = {});
  static Status write(const std::string& path, std::initializer_list<CheckpointTensor> tensors,
                      const CheckpointNotes& notes = {}) {
    return write(path, std::span(tensors.begin(), tensors.size()), notes);
  }

  // The file at `path`, all of it. TN_INVALID, with path and byte or tensor, for one that is no safetensors file, was cut off or
  // damaged, contradicts itself, or is another program's and that is not asked for; TN_NOT_FOUND; TN_NO_MEMORY.
  // [any-thread; blocks; may fail]
  static Result<Checkpoint> read(const std::string& path, const CheckpointReadOptions& options = {});

  // By name. Their bytes live as long as any copy of this, each tensor's at a multiple of 256.
  // [any-thread; does not block; cannot fail]
  std::span<const CheckpointTensor> tensors() const noexcept;
  // The tensor called `name`, or NULL. [any-thread; does not block; returns NULL]
  const CheckpointTensor* find(std::string_view name) const noexcept;
  // The bytes of `name`, which is to have the type and dims of `spec`. TN_NOT_FOUND with the nearest name; TN_MISMATCH with both
  // specs. [any-thread; does not block; may fail]
  Result<std::span<const std::byte>> bytes(std::string_view name, const TensorSpec& spec) const;
  const CheckpointNotes& notes() const noexcept;

  struct State;
  struct Access;  // core/checkpoint

 private:
  explicit Checkpoint(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// The newest checkpoint of a folder that reads whole.
struct CheckpointFound {
  uint64_t step = 0;
  std::string path{};
  Checkpoint checkpoint;
  std::vector<std::string> skipped{};  // of each newer one, why it could not be read
};

// The checkpoints of one run: FOLDER/step-000123.safetensors. A folder has one writer; ranks that save parts of their own have a
// folder each. Whoever goes back to an earlier step on purpose takes a new folder: the highest step is the newest.
class TN_API CheckpointFolder {
 public:
  // `path` is made where it is missing, for this user only. Writing keeps `keep` checkpoints. TN_INVALID for keep 0, or naming
  // the path. [any-thread; may block; may fail]
  static Result<CheckpointFolder> open(std::string path, uint32_t keep = 3);

  // As Checkpoint::write, at path_of(step); then older ones than the newest `keep` are removed. The one just written is always
  // kept, and one that `newest` could not read does not count. A failure that says that the checkpoint is written is about
  // the removal. [one thread; blocks; may fail]
  Status write(uint64_t step, std::span<const CheckpointTensor> tensors, const CheckpointNotes& notes = {});
  Status write(uint64_t step, std::initializer_list<CheckpointTensor> tensors,
               const CheckpointNotes& notes = {}) {
    return write(step, std::span(tensors.begin(), tensors.size()), notes);
  }

  // The checkpoint of the highest step that reads whole. TN_NOT_FOUND when there are none, so that a run may begin; TN_INVALID
  // with the reason of each when none of them reads whole; TN_NO_MEMORY. [one thread; blocks; may fail]
  Result<CheckpointFound> newest();

  // The steps there are files of, rising; whether they read whole is not known. [one thread; may block; may fail]
  Result<std::vector<uint64_t>> steps() const;
  // [any-thread; does not block; cannot fail]
  std::string path_of(uint64_t step) const;
  const std::string& path() const noexcept { return path_; }

 private:
  CheckpointFolder(std::string path, uint32_t keep) : path_(std::move(path)), keep_(keep) {}
  Status remove_old(uint64_t written);

  std::string path_;
  uint32_t keep_;
  std::set<uint64_t> broken_{};  // steps that `newest` could not read
};

}  // namespace tenon
