// SPDX-License-Identifier: Apache-2.0
// recorder.cpp: see recorder.hpp.
#include "layers/recorder.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

namespace tenon::layers {

Status Recorder::begin() {
  const std::lock_guard lock(mutex_);
  const Status made = base::write_file(file_, "");  // makes the folder, too
  if (!made.ok()) return Status(TN_INVALID, "record: " + made.error().message);
  out_.open(file_, std::ios::binary | std::ios::trunc);
  const std::string head = recording::file_head();
  out_.write(head.data(), static_cast<std::streamsize>(head.size())).flush();
  if (out_.good()) return {};
  return Status(TN_INVALID, "the recording " + base::quoted(file_) + " cannot be written");
}

void Recorder::add(recording::Step step) {
  const std::lock_guard lock(mutex_);
  if (ended_) ++late_;
  if (ended_ || broken_) return;
  const std::string bytes = recording::encode(std::move(step), check_);
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ++steps_;
  if (out_.good()) return;
  broken_ = true;
  if (log_)
    log_(TN_LOG_ERROR,
         "the recording " + base::quoted(file_) + " broke off at step " + std::to_string(steps_));
}

void Recorder::flush() {
  const std::lock_guard lock(mutex_);
  out_.flush();
}

Status Recorder::end() {
  const std::lock_guard lock(mutex_);
  if (ended_) return {};
  ended_ = true;
  const std::string bytes = recording::encode_end(steps_, check_);
  if (!broken_) out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  broken_ |= !out_.good();
  out_.close();
  if (!broken_) return {};
  return Status(TN_INTERNAL,
                "the recording " + base::quoted(file_) + " is not complete: the disk may be full");
}

std::vector<std::string> Recorder::report() const {
  const std::lock_guard lock(mutex_);
  std::string text = "recorded " + std::to_string(steps_) + " steps to " + base::quoted(file_);
  if (broken_) text += ", where it broke off";
  if (late_ != 0) text += ", and " + std::to_string(late_) + " came after its end";
  return {text};
}

}  // namespace tenon::layers
