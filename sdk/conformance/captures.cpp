// SPDX-License-Identifier: Apache-2.0
// captures.cpp: see captures.hpp.
#include "conformance/captures.hpp"

#include "conformance/extensions.hpp"

namespace tenon::conform {

void Capture::swap(Capture& other) noexcept {
  std::swap(t_, other.t_);
  std::swap(api_, other.api_);
  std::swap(handle_, other.handle_);
}

Status Capture::replay(const Stream& stream) const {
  return t_->call("capture.replay", [&](tn_error* e) { return api_->replay(handle_, stream.handle(), e); });
}

Status Capture::destroy() {
  tn_capture* const handle = std::exchange(handle_, nullptr);
  if (handle == nullptr) return {};
  Status said = t_->call("capture.destroy", [&](tn_error* e) { return api_->destroy(handle, e); });
  t_->check(said.ok(), "capture.destroy: ", said.message());
  return said;
}

Result<Captures> Captures::of(Context& t) {
  const Tables& tables = *TN_TRY(t.tables());
  const void* const found = asked_for(tables, TN_CAPTURE_ID);
  TN_TRY(t.needs(found != nullptr, "capture", "the plugin has no extension " TN_CAPTURE_ID));
  const auto& api = *static_cast<const tn_capture_api*>(found);
  TN_TRY(t.require(api.header.size >= sizeof api && api.begin != nullptr && api.end != nullptr &&
                       api.replay != nullptr && api.destroy != nullptr,
                   "the table of " TN_CAPTURE_ID " has a size of ", api.header.size,
                   " or lacks a function: all four are required"));
  return Captures(t, api);
}

Status Captures::begin(const Stream& stream) const {
  return t_->call("capture.begin", [&](tn_error* e) { return api_->begin(stream.handle(), e); });
}

Result<Capture> Captures::end(const Stream& stream) const {
  tn_capture* made = nullptr;
  TN_TRY(t_->call("capture.end", [&](tn_error* e) { return api_->end(stream.handle(), &made, e); }));
  TN_TRY(t_->require(made != nullptr, "capture.end said TN_OK and gave no capture"));
  return Capture(*t_, *api_, made);
}

}  // namespace tenon::conform
