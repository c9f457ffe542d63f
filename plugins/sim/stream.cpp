// SPDX-License-Identifier: Apache-2.0
// stream.cpp: from a call to a command.
//
// A host source is taken along when the call is made; everything else is read and written when the command runs, and a
// host destination is filled no earlier than its copy is reached.
#include "stream.hpp"

#include "device.hpp"
#include "kernel.hpp"

#include <tenon/author/span.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace tenon::sim {

using author::text;
using Kind = Command::Kind;

namespace {

bool is_host(const tn_span& span) noexcept { return span.space == TN_SPACE_HOST_ADDRESS; }

// Copies one row after the other; a box of fewer dims has one of each outer one.
void copy_box(std::byte* dst, const std::byte* src, const tn_copy_shape& box) {
  std::array<uint64_t, 4> extent{1, 1, 1, 1}, to{}, from{};
  std::copy_n(box.extent, box.rank, extent.end() - box.rank);
  std::copy_n(box.dst_stride, box.rank, to.end() - box.rank);
  std::copy_n(box.src_stride, box.rank, from.end() - box.rank);
  for (uint64_t i = 0; i < extent[0]; ++i)
    for (uint64_t j = 0; j < extent[1]; ++j)
      for (uint64_t k = 0; k < extent[2]; ++k)
        std::memmove(dst + i * to[0] + j * to[1] + k * to[2], src + i * from[0] + j * from[1] + k * from[2],
                     extent[3]);
}

}  // namespace

Stream::Stream(std::shared_ptr<Card> card, Scheduler& scheduler)
    : card_(std::move(card)), scheduler_(scheduler), lane_(scheduler_.open(*card_)) {}

Stream::~Stream() {
  if (lane_) (void)scheduler_.close(lane_, true);
}

Result<std::byte*> Stream::place(const tn_span& span, const char* what) const {
  if (span.bytes == 0) return nullptr;
  if (span.space == TN_SPACE_MEMORY) {
    const auto& memory = author::object<Memory>(span.memory);
    if (&memory.card() == card_.get() || card_->profile().peer) return memory.inside() + span.offset;
    return Status(TN_INVALID, text(what, ": this memory is device 'sim:", memory.card().ordinal(),
                                   "'s, the stream is device 'sim:", card_->ordinal(), "'s: stage the copy"));
  }
  if (span.space == TN_SPACE_DEVICE_ADDRESS) {
    if (std::byte* found = card_->arena().find(span.offset, span.bytes)) return found;
    return Status(TN_INVALID, text(what, ": ", span.bytes, " bytes at device address ", span.offset,
                                   " do not lie in one allocation of device 'sim:", card_->ordinal(), "'"));
  }
  if (card_->arena().forbids(span.offset, span.bytes)) {
    return Status(TN_INVALID, text(what, ": host address ", span.offset,
                                   " is the device's: name it TN_SPACE_DEVICE_ADDRESS"));
  }
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(span.offset));
}

Status Stream::check_copy(const tn_span& dst, const tn_span& src) const {
  const uint64_t unit = card_->profile().copy_alignment;
  const auto odd = [unit](const tn_span& s) { return !is_host(s) && s.offset % unit != 0; };
  if (dst.bytes % unit == 0 && !odd(dst) && !odd(src)) return {};
  return Status(TN_UNSUPPORTED, text("a copy of ", dst.bytes, " bytes from ", src.offset, " to ", dst.offset,
                                     ": this device copies multiples of ", unit,
                                     " bytes between multiples of ", unit, " (sim.copy_alignment)"));
}

Status Stream::enqueue(std::function<Status()> run) {
  if (const auto recording = capturing_.recording()) {
    recording->add(&capturing_, {std::move(run), card_});
    return {};
  }
  return scheduler_.post(*lane_, {.kind = Kind::work, .run = std::move(run)});
}

Status Stream::copy(const tn_span& dst, const tn_span& src) {
  TN_TRY(check_copy(dst, src));
  std::byte* const to = TN_TRY(place(dst, "dst"));
  const std::byte* from = TN_TRY(place(src, "src"));
  const bool host = is_host(dst) || is_host(src);
  if (host) TN_TRY(capturing_.refuse("a copy from or to pageable host memory"));
  std::shared_ptr<std::vector<std::byte>> taken;
  if (is_host(src)) {
    taken = std::make_shared<std::vector<std::byte>>(from, from + src.bytes);
    from = taken->data();
  }
  return enqueue([card = card_.get(), to, from, bytes = dst.bytes, host, taken]() -> Status {
    if (host) card->travel(bytes);
    std::memmove(to, from, bytes);
    return {};
  });
}

Status Stream::copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape) {
  std::byte* const to = TN_TRY(place(dst, "dst"));
  const std::byte* from = TN_TRY(place(src, "src"));
  const bool host = is_host(dst) || is_host(src);
  if (host) TN_TRY(capturing_.refuse("a copy from or to pageable host memory"));
  std::shared_ptr<std::vector<std::byte>> taken;
  if (is_host(src)) {
    taken = std::make_shared<std::vector<std::byte>>(from, from + src.bytes);
    from = taken->data();
  }
  return enqueue([card = card_.get(), to, from, shape, bytes = dst.bytes, host, taken]() -> Status {
    if (host) card->travel(bytes);
    copy_box(to, from, shape);
    return {};
  });
}

Status Stream::fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) {
  std::byte* const to = TN_TRY(place(dst, "dst"));
  return enqueue([to, bytes = dst.bytes, pattern, pattern_bytes]() -> Status {
    if (pattern_bytes == 1) std::memset(to, static_cast<int>(pattern & 0xFF), bytes);
    for (uint64_t at = 0; pattern_bytes > 1 && at < bytes; at += pattern_bytes)
      std::memcpy(to + at, &pattern, pattern_bytes);
    return {};
  });
}

Status Stream::launch(std::shared_ptr<const Executor> executor, std::span<const tn_span> bindings,
                      const tn_span& workspace) {
  std::vector<std::byte*> places;
  for (const tn_span& binding : bindings) places.push_back(TN_TRY(place(binding, "a binding")));
  std::byte* const room = TN_TRY(place(workspace, "workspace"));
  return enqueue([card = card_.get(), executor = std::move(executor), places = std::move(places), room] {
    return executor->run(*card, places, room);
  });
}

Status Stream::host_call(void (*call)(void*), void* argument) {
  TN_TRY(capturing_.refuse("a host call"));
  return scheduler_.post(*lane_, {.kind = Kind::call, .run = [call, argument]() -> Status {
                                    call(argument);
                                    return {};
                                  }});
}

Result<uint64_t> Stream::record(uint32_t flags) {
  const bool timed = (flags & TN_RECORD_TIMED) != 0;
  const auto recording = capturing_.recording();
  if (!recording) return newest_ = TN_TRY(scheduler_.record(*lane_, timed));
  // A value of this stream's own timeline, so that values never go back; what it stands for is the capture's.
  const uint64_t value = TN_TRY(scheduler_.record(*lane_, true));
  recording->mark(&capturing_, value);
  return newest_ = value;
}

Status Stream::wait(Stream& other, uint64_t value) {
  if (capturing_.see(other.capturing_, value, newest_)) return {};
  if (!capturing_.recording()) return scheduler_.wait(*lane_, other.lane_, value);
  if (other.sync(value, 0).ok()) return {};
  return capturing_.refuse("a wait for work outside the capture");
}

Result<uint64_t> Stream::completed() { return capturing_.outside(TN_TRY(scheduler_.completed(*lane_))); }

Status Stream::sync(uint64_t value, uint64_t timeout_ns) {
  TN_TRY(capturing_.check_outside(value));
  return scheduler_.sync(*lane_, value, timeout_ns);
}

Result<uint64_t> Stream::timestamp(uint64_t value) { return scheduler_.timestamp(*lane_, value); }
Result<uint64_t> Stream::promise() {
  TN_TRY(capturing_.refuse("a promise"));
  return scheduler_.promise(*lane_);
}
Status Stream::signal(uint64_t value, int32_t code) { return scheduler_.signal(*lane_, value, code); }

Status Stream::exchange(Command command, std::shared_ptr<Lane>& lane) {
  TN_TRY(capturing_.refuse("a collective"));
  lane = lane_;
  return scheduler_.post(*lane_, std::move(command));
}

Status Stream::finish(uint32_t mode) {
  capturing_.leave();
  return scheduler_.close(std::exchange(lane_, nullptr), mode == TN_DESTROY_ABANDON);
}

Result<std::unique_ptr<Capture>> Stream::end_capture() {
  auto recording = TN_TRY(capturing_.end());
  return std::make_unique<Capture>(Capture{std::move(recording)});
}

Status Stream::replay(const Capture& capture) {
  return enqueue([recording = capture.recording]() -> Status {
    for (const Step& step : recording->steps()) TN_TRY(step.run());
    return {};
  });
}

}  // namespace tenon::sim
