// SPDX-License-Identifier: Apache-2.0
// capture.cpp: "tn.capture/1" for the host's users.
//
// Invariant: a stream that has begun to capture is ended, whatever the work between does.
#include <tenon/capture.hpp>

#include <tenon/ext/capture.h>

#include "runtime/device_state.hpp"
#include "runtime/pool/captured.hpp"
#include "runtime/timeline.hpp"

namespace tenon {
namespace {

struct LiveCapture final : detail::CaptureState {
  LiveCapture(const tn_capture_api& table, const std::shared_ptr<detail::DeviceState>& whose)
      : api(&table), device(whose), memory(whose) {
    device->kernels->keep_all();
  }
  LiveCapture(const LiveCapture&) = delete;
  LiveCapture& operator=(const LiveCapture&) = delete;
  ~LiveCapture() { device->kernels->let_go(); }

  const tn_capture_api* api;
  tn_capture* handle = nullptr;
  std::shared_ptr<detail::DeviceState> device;  // whose cache keeps the kernels
  runtime::CapturedMemory memory;
};

const tn_capture_api* find_api(const detail::DeviceState& device) noexcept {
  const auto* api =
      static_cast<const tn_capture_api*>(device.plugin->extension(device.plugin, TN_CAPTURE_ID));
  return api != nullptr && api->header.size >= sizeof(tn_capture_api) ? api : nullptr;
}

// A stream that captures, until `end`. Nothing of what is collected is enqueued, so it leaves nothing unrecorded.
class Open {
 public:
  static Result<Open> begin(const tn_capture_api& api, runtime::Timeline& line) {
    tn_error error = no_error();
    const int32_t code = api.begin(line.handle, &error);
    if (code != TN_OK) return detail::stream_failure(line, code, error);
    return Open(api, line);
  }
  Open(Open&& other) noexcept
      : api_(other.api_), line_(std::exchange(other.line_, nullptr)), unrecorded_(other.unrecorded_) {}
  Open& operator=(Open&&) = delete;
  ~Open() {
    if (line_ == nullptr) return;
    if (auto made = end(); made.ok()) api_->destroy(*made, nullptr);
  }

  Result<tn_capture*> end() {
    runtime::Timeline& line = *std::exchange(line_, nullptr);
    tn_capture* made = nullptr;
    tn_error error = no_error();
    const int32_t code = api_->end(line.handle, &made, &error);
    line.unrecorded.store(unrecorded_, std::memory_order_release);
    if (code != TN_OK) return detail::stream_failure(line, code, error);
    return made;
  }

 private:
  Open(const tn_capture_api& api, runtime::Timeline& line)
      : api_(&api), line_(&line), unrecorded_(line.unrecorded.load(std::memory_order_relaxed)) {}
  const tn_capture_api* api_;
  runtime::Timeline* line_;
  uint32_t unrecorded_;
};

}  // namespace

void detail::CaptureState::destroy(CaptureState* state) noexcept {
  const auto* live = static_cast<LiveCapture*>(state);
  live->api->destroy(live->handle, nullptr);
  delete live;
}

bool Capture::offered(const Device& device) noexcept { return find_api(*device.state()) != nullptr; }

Result<Capture> Capture::of(Stream& stream, const std::function<Status()>& work) {
  runtime::Timeline& line = runtime::timeline_of(*stream.state());
  if (!line.healthy()) return detail::stream_poison(line);
  const tn_capture_api* const api = find_api(*line.device);
  if (api == nullptr)
    return Status(TN_UNSUPPORTED,
                  line.device->name +
                      " captures nothing: its plugin, or a layer over it, has no " TN_CAPTURE_ID
                      "; launch one by one");
  auto made = std::make_unique<LiveCapture>(*api, line.device);
  Open open = TN_TRY(Open::begin(*api, line));
  {
    const runtime::CapturedMemory::Collecting collecting(made->memory, line);
    TN_TRY(work());
  }
  made->handle = TN_TRY(open.end());
  return Capture(detail::Ref<detail::CaptureState>::adopt(made.release()));
}

Status Capture::replay(Stream& stream) const {
  auto& live = static_cast<LiveCapture&>(*state_);
  detail::StreamState& line = *stream.state();
  if (!line.healthy()) [[unlikely]]
    return detail::stream_poison(line);
  line.touch();
  tn_error error = no_error();
  const int32_t code = live.api->replay(live.handle, line.handle, &error);
  if (code != TN_OK) [[unlikely]]
    return detail::stream_failure(line, code, error);
  live.memory.replayed(runtime::timeline_of(line));
  return {};
}

}  // namespace tenon
