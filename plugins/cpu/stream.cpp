// SPDX-License-Identifier: Apache-2.0
// stream.cpp: from a call to a command, and from a value to its verdict.
//
// Everything is host memory, so a copy from or to a host address differs from another only in when the call returns: a
// small source is copied into the queue's arena, a large one (and every host destination) is waited for.
// Invariant: a slot is filled completely before it is published.
#include "stream.hpp"

#include "device.hpp"

#include <tenon/author/span.hpp>
#include <tenon/author/text.hpp>

#include <cstring>

namespace tenon::cpu {

using author::text;
using Kind = Command::Kind;

namespace {

// A host source up to this size is copied in the call; the arena holds 32 of them.
constexpr uint64_t staged_bytes = 4096;

constexpr const char* host_copy = "a copy from or to ordinary host memory";

std::byte* place(const tn_span& span) noexcept { return author::data_of<Memory>(span); }

std::string name_of(const tn_stream_options& options) {
  return options.name != nullptr && *options.name != '\0' ? options.name : "cpu stream";
}

}  // namespace

Stream::Stream(Device& device, const tn_stream_options& options)
    : roster_(device.roster()),
      worker_(std::make_shared<Worker>(device.crew(), device.processors(), name_of(options))),
      queue_(worker_->queue()),
      timeline_(worker_->timeline()) {
  roster_.add(worker_);
}

Stream::~Stream() {
  worker_->stop();
  roster_.remove(*worker_);
}

Status Stream::refusal() {
  if (timeline_.failed()) return timeline_.failure();
  return Status(TN_INVALID, "this stream carries promises, and so no other work: use another stream");
}

void Stream::make_room() noexcept {
  seen_ = timeline_.progress();
  if (queue_.enqueued() - seen_ < Queue::capacity) return;
  // A quarter of the ring at once, so that a caller who runs ahead is not woken for each command.
  const uint64_t enough = queue_.enqueued() - Queue::capacity * 3 / 4;
  (void)reach(enough, TN_TIMEOUT_NEVER);
  seen_ = timeline_.progress();
}

std::byte* Stream::arena(uint64_t bytes) noexcept {
  for (;;) {
    if (std::byte* piece = queue_.take(bytes)) return piece;
    (void)reach(timeline_.progress() + 1, TN_TIMEOUT_NEVER);
  }
}

Status Stream::copy(const tn_span& dst, const tn_span& src) {
  if (blocked()) [[unlikely]]
    return refusal();
  const bool from_host = src.space == TN_SPACE_HOST_ADDRESS, to_host = dst.space == TN_SPACE_HOST_ADDRESS;
  const std::byte* source = place(src);
  if (from_host || to_host) TN_TRY(capturing_.refuse(host_copy));
  const bool staged = from_host && !to_host && src.bytes <= staged_bytes;
  if (staged) {
    std::byte* piece = arena(src.bytes);
    std::memcpy(piece, source, src.bytes);
    source = piece;
  }
  slot().copy = {.dst = place(dst), .src = source, .bytes = dst.bytes};
  const uint64_t value = publish(Kind::Copy);
  return (from_host && !staged) || to_host ? settle(value) : Status();
}

Status Stream::copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape) {
  if (blocked()) [[unlikely]]
    return refusal();
  const bool host = src.space == TN_SPACE_HOST_ADDRESS || dst.space == TN_SPACE_HOST_ADDRESS;
  if (host) TN_TRY(capturing_.refuse(host_copy));
  BoxCommand box{
      .dst = place(dst), .src = place(src), .extent = {1, 1, 1, 1}, .dst_stride = {}, .src_stride = {}};
  const uint32_t lead = 4 - shape.rank;
  for (uint32_t i = 0; i < shape.rank; ++i) {
    box.extent[lead + i] = shape.extent[i];
    if (lead + i == 3) continue;
    box.dst_stride[lead + i] = shape.dst_stride[i];
    box.src_stride[lead + i] = shape.src_stride[i];
  }
  slot().box = box;
  const uint64_t value = publish(Kind::Box);
  return host ? settle(value) : Status();
}

Status Stream::fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) {
  if (blocked()) [[unlikely]]
    return refusal();
  slot().fill = {.dst = place(dst), .bytes = dst.bytes, .pattern = pattern, .pattern_bytes = pattern_bytes};
  publish(Kind::Fill);
  return {};
}

Status Stream::launch(const Runnable& program, std::span<const tn_span> bindings, const tn_span& workspace) {
  if (blocked()) [[unlikely]]
    return refusal();
  const bool fits = bindings.size() <= LaunchCommand::inline_bindings;
  std::byte** const piece = fits ? nullptr : room(bindings.size());
  LaunchCommand& command = slot().launch;
  command.runnable = &program;
  command.workspace = place(workspace);
  std::byte** const places = fits ? command.own : piece;
  for (size_t i = 0; i < bindings.size(); ++i) places[i] = place(bindings[i]);
  command.bindings = places;
  publish(Kind::Launch);
  return {};
}

// For more bindings than a command holds.
std::byte** Stream::room(size_t bindings) {
  if (!capturing_.recording()) return reinterpret_cast<std::byte**>(arena(bindings * sizeof(std::byte*)));
  collected_ = std::make_unique<std::byte*[]>(bindings);
  return collected_.get();
}

// False: the capture was ended by the stream that began it.
bool Stream::collect(Kind kind) {
  const auto recording = capturing_.recording();
  if (recording == nullptr) return false;
  Taped step{.command = slot(), .bindings = std::move(collected_)};
  step.command.kind = kind;
  if (kind == Kind::Launch) step.command.launch.bindings = step.bindings.get();
  recording->add(&capturing_, std::move(step));
  return true;
}

Status Stream::host_call(void (*call)(void*), void* argument) {
  if (blocked()) [[unlikely]]
    return refusal();
  TN_TRY(capturing_.refuse("a host call"));
  slot().call = {.call = call, .argument = argument};
  worker_->publish(Kind::Call);
  return {};
}

Status Stream::run(Errand& errand, Timeline& turns, uint64_t value) {
  if (blocked()) [[unlikely]]
    return refusal();
  TN_TRY(capturing_.refuse("a collective"));
  if (turns.progress() < value) {
    turns.retain();
    slot().wait = {.timeline = &turns, .value = value};
    worker_->publish(Kind::Wait);
  }
  slot().errand = {.errand = &errand};
  worker_->publish(Kind::Errand);
  return {};
}

Result<uint64_t> Stream::record(uint32_t flags) {
  if (timeline_.failed()) [[unlikely]]
    return refusal();
  if (capturing_.maybe()) [[unlikely]] {
    // A value of this stream's own timeline, so that values never go back; what it stands for is the capture's.
    if (const auto recording = capturing_.recording()) {
      (void)slot();
      const uint64_t value = worker_->publish(Kind::Stamp);
      recording->mark(&capturing_, value);
      return value;
    }
  }
  if ((flags & TN_RECORD_TIMED) == 0) return newest();
  if (promises_ != nullptr) return refusal();
  (void)slot();
  return worker_->publish(Kind::Stamp);
}

// A poisoned `other` passes its values too: the failure itself travels with the host, which asks `other`.
Status Stream::wait(Stream& other, uint64_t value) {
  if (timeline_.failed()) [[unlikely]]
    return refusal();
  if (&other == this) return {};
  if ((capturing_.maybe() || other.capturing_.maybe()) &&
      capturing_.see(other.capturing_, value, queue_.enqueued()))
    return {};
  if (other.capturing_.outside(other.timeline_.progress()) >= value) return {};
  TN_TRY(capturing_.refuse("a wait for work outside the capture"));
  if (promises_ != nullptr) return refusal();
  other.timeline_.retain();
  slot().wait = {.timeline = &other.timeline_, .value = value};
  worker_->publish(Kind::Wait);
  return {};
}

Result<uint64_t> Stream::completed() {
  const uint64_t progress = timeline_.progress();
  if (progress >= timeline_.failed_at()) [[unlikely]]
    return timeline_.failure();
  return capturing_.outside(progress);
}

bool Stream::reach(uint64_t value, uint64_t timeout_ns) noexcept {
  if (timeline_.progress() >= value) return true;
  if (timeout_ns == 0) return false;
  const uint64_t deadline = driver::deadline_after(timeout_ns);
  uint32_t turn = 0;
  const auto over = [&] {
    if (timeline_.progress() >= value) return true;
    return deadline != driver::never && ++turn % 64 == 0 && driver::now_ns() >= deadline;
  };
  if (spin_until(Spinner::Caller, over)) return timeline_.progress() >= value;
  return timeline_.sleep_until(value, deadline);
}

Status Stream::sync(uint64_t value, uint64_t timeout_ns) {
  TN_TRY(capturing_.check_outside(value));
  if (!reach(value, timeout_ns)) {
    return Status(TN_TIMEOUT, text("value ", value, " was not reached in ", timeout_ns,
                                   " ns; the stream is at ", timeline_.progress()));
  }
  if (timeline_.failed_at() <= value) [[unlikely]]
    return timeline_.failure();
  return {};
}

Result<uint64_t> Stream::timestamp(uint64_t value) {
  uint64_t ns = 0;
  if (worker_->stamps().read(value, ns)) return ns;
  if (timeline_.failed_at() <= value) return timeline_.failure();
  if (timeline_.progress() < value) {
    return Status(TN_INVALID, text("value ", value, " is not reached yet (the stream is at ",
                                   timeline_.progress(), "): sync it before asking for its time"));
  }
  return Status(TN_INVALID,
                text("value ", value, " has no time: record it with TN_RECORD_TIMED, and ask before ",
                     Stamps::capacity, " newer ones"));
}

Result<uint64_t> Stream::promise() {
  if (timeline_.failed()) return refusal();
  TN_TRY(capturing_.refuse("a promise"));
  if (queue_.enqueued() != 0) {
    return Status(TN_INVALID,
                  "this stream has carried work, and so takes no promises: use a stream of its own");
  }
  if (promises_ == nullptr) promises_ = std::make_unique<Promises>(timeline_);
  return promises_->make();
}

Status Stream::signal(uint64_t value, int32_t code) {
  if (promises_ == nullptr)
    return Status(TN_INVALID, text("value ", value, " was never promised on this stream"));
  return promises_->keep(value, code);
}

Status Stream::begin_capture() {
  if (blocked()) return refusal();
  return capturing_.begin(queue_.enqueued());
}

Result<std::unique_ptr<Capture>> Stream::end_capture() {
  return std::make_unique<Capture>(TN_TRY(capturing_.end()));
}

Status Stream::replay(const Capture& capture) {
  if (blocked()) [[unlikely]]
    return refusal();
  TN_TRY(capturing_.refuse("the replay of another capture"));
  capture.tape().retain();
  slot().replay = {.tape = &capture.tape()};
  worker_->publish(Kind::Replay);
  return {};
}

Status Stream::finish(uint32_t mode) {
  capturing_.leave();
  if (mode == TN_DESTROY_ABANDON) worker_->abandon();
  const uint64_t unkept = promises_ != nullptr ? promises_->give_up() : 0;
  worker_->stop();
  if (Status untold = timeline_.untold_failure(); !untold.ok()) return untold;
  if (unkept == 0 || mode == TN_DESTROY_ABANDON) return {};
  return Status(TN_INVALID,
                text(unkept, " promises of this stream were never kept; whoever waits for them goes on"));
}

}  // namespace tenon::cpu
