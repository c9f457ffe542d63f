// SPDX-License-Identifier: Apache-2.0
// folder.cpp: the checkpoints of one run.
//
// Invariant: nothing is removed before a newer checkpoint is whole and on the disk.
#include <tenon/checkpoint.hpp>

#include "base/file.hpp"
#include "base/file_stream.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tenon {
namespace {

constexpr std::string_view name_begin = "step-", name_end = ".safetensors";
constexpr size_t fewest_digits = 6;

std::string file_name(uint64_t step) {
  const std::string digits = std::to_string(step);
  std::string name(name_begin);
  name.append(fewest_digits - std::min(fewest_digits, digits.size()), '0');
  return name.append(digits).append(name_end);
}

// The step of "step-000123.safetensors"; nothing for what file_name does not make.
std::optional<uint64_t> step_of(std::string_view name) {
  if (name.size() < name_begin.size() + name_end.size()) return {};
  const std::string_view digits =
      name.substr(name_begin.size(), name.size() - name_begin.size() - name_end.size());
  uint64_t step = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return file_name(step) == name ? std::optional(step) : std::nullopt;
}

}  // namespace

Result<CheckpointFolder> CheckpointFolder::open(std::string path, uint32_t keep) {
  if (keep == 0)
    return Status(TN_INVALID, "checkpoint folder " + path + ": keep is 0, and at least 1 checkpoint is kept");
  TN_TRY(base::make_folder(path));
  return CheckpointFolder(std::move(path), keep);
}

std::string CheckpointFolder::path_of(uint64_t step) const { return path_ + "/" + file_name(step); }

Result<std::vector<uint64_t>> CheckpointFolder::steps() const {
  std::vector<uint64_t> steps;
  for (const std::string& name : TN_TRY(base::list_folder(path_)))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

Status CheckpointFolder::write(uint64_t step, std::span<const CheckpointTensor> tensors,
                               const CheckpointNotes& notes) {
  base::remove_partials(path_, [](std::string_view name) { return step_of(name).has_value(); });
  TN_TRY(Checkpoint::write(path_of(step), tensors, notes));
  broken_.erase(step);
  const Status removed = remove_old(step);
  if (removed.ok()) return {};
  return {removed.code(), path_of(step) + " is written, but " + std::string(removed.message())};
}

// The newest stay, the one just written among them, until `keep_` do that are not known to be broken.
Status CheckpointFolder::remove_old(uint64_t written) {
  const std::vector<uint64_t> steps = TN_TRY(this->steps());
  uint32_t kept = 1;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (*step == written) continue;
    if (kept == keep_) {
      TN_TRY(base::remove_file(path_of(*step)));
      broken_.erase(*step);
    } else if (!broken_.contains(*step)) {
      ++kept;
    }
  }
  return {};
}

Result<CheckpointFound> CheckpointFolder::newest() {
  std::vector<uint64_t> steps = TN_TRY(this->steps());
  std::vector<std::string> skipped;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    auto read = Checkpoint::read(path_of(*step));
    if (read.ok())
      return CheckpointFound{.step = *step,
                             .path = path_of(*step),
                             .checkpoint = std::move(*read),
                             .skipped = std::move(skipped)};
    if (read.code() == TN_NO_MEMORY) return std::move(read).failure();  // an older one would hide that
    broken_.insert(*step);
    skipped.emplace_back(read.message());
  }
  if (skipped.empty()) return Status(TN_NOT_FOUND, "there is no checkpoint in " + path_ + " yet");
  return Status(TN_INVALID, "none of the " + base::counted(skipped.size(), "checkpoint") + " in " + path_ +
                                " reads whole: " + base::join(skipped, "; "));
}

}  // namespace tenon
