// SPDX-License-Identifier: Apache-2.0
// restore.cpp: an executor's parameters and states to a checkpoint and back.
#include "base/text.hpp"
#include "train/state.hpp"

#include <charconv>

namespace tenon {
namespace {

constexpr const char* steps_note = "steps";

// What a checkpoint is written from; it owns the bytes.
struct Contents {
  std::vector<std::vector<std::byte>> bytes{};
  std::vector<CheckpointTensor> tensors{};
};

Result<Contents> contents_of(Executor& executor) {
  Contents out;
  for (const Executor::Lasting& one : executor.lasting()) {
    out.bytes.push_back(TN_TRY(executor.get(one.name)));
    out.tensors.push_back({one.name, one.spec, out.bytes.back()});
  }
  return out;
}

Status check_save(const Executor::State& state, CheckpointNotes& notes) {
  const std::vector<std::string> missing = state.lasting.not_begun();
  if (!missing.empty())
    return Status(TN_INVALID, "executor: parameter " + base::quoted(missing.front()) +
                                  " has no value: call initialize, or set it, before a checkpoint is made");
  if (!notes.emplace(steps_note, std::to_string(state.steps)).second)
    return Status(TN_INVALID, "executor: the note 'steps' is the executor's own: call yours otherwise");
  return {};
}

Result<uint64_t> steps_of(const Checkpoint& from) {
  const auto note = from.notes().find(steps_note);
  uint64_t steps = 0;
  if (note == from.notes().end()) return steps;
  const std::string& text = note->second;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (failed == std::errc() && end == text.data() + text.size()) return steps;
  return Status(TN_INVALID,
                "executor: the checkpoint's note 'steps' is " + base::quoted(text) + ", no number");
}

}  // namespace

Status Executor::save(const std::string& path, CheckpointNotes notes) {
  TN_TRY(check_save(*state_, notes));
  const Contents contents = TN_TRY(contents_of(*this));
  return state_->writes() ? Checkpoint::write(path, contents.tensors, notes) : Status();
}

Status Executor::save(CheckpointFolder& folder, CheckpointNotes notes) {
  TN_TRY(check_save(*state_, notes));
  const Contents contents = TN_TRY(contents_of(*this));
  return state_->writes() ? folder.write(state_->steps, contents.tensors, notes) : Status();
}

Status Executor::restore(const Checkpoint& from) {
  const uint64_t steps = TN_TRY(steps_of(from));
  for (const Lasting& one : lasting()) TN_TRY(from.bytes(one.name, one.spec));
  for (const Lasting& one : lasting()) TN_TRY(set(one.name, TN_TRY(from.bytes(one.name, one.spec))));
  state_->steps = state_->fetched_at = steps;
  return {};
}

}  // namespace tenon
