// SPDX-License-Identifier: Apache-2.0
// validate.cpp: what all of the validate layer's calls share: objects, operations, findings, leaks; and the layer itself.
#include "layers/validate.hpp"

#include "layers/text.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::layers {
namespace {

thread_local uint64_t call_number = 0;

}  // namespace

uint64_t current_call() noexcept { return call_number; }

std::string describe(const Object& object) {
  std::string text = object.name + " (" + object.story;
  if (const uint64_t ended = object.ended_at) text += ", ended by call #" + std::to_string(ended);
  return text + ")";
}

StreamUse::StreamUse(StreamObject* stream, Findings& findings, const char* function) : stream_(stream) {
  if (stream == nullptr) return;
  std::thread::id nobody{};
  mine_ = stream->user.compare_exchange_strong(nobody, std::this_thread::get_id(), std::memory_order_relaxed);
  if (mine_ || nobody == std::this_thread::get_id()) return;
  findings.add(TN_LOG_ERROR, "threads|" + stream->name,
               std::string(function) + " #" + std::to_string(call_number) + ": " + stream->name +
                   " is in another thread's call at the same time: one thread at a time enqueues");
}

std::string ValidateState::name_of(const Access& use) const {
  const std::lock_guard lock(names_mutex_);
  const auto known = names_.find(use.region);
  if (known != names_.end()) return known->second + " " + range_text(use.bytes.begin, use.bytes.end);
  return std::string(use.region == host_region ? "host" : "device") + " memory [" +
         hex_number(use.bytes.begin) + ", " + hex_number(use.bytes.end) + ")";
}

void ValidateState::name_region(uint64_t region, const std::string& name) {
  const std::lock_guard lock(names_mutex_);
  names_[region] = name;
}

void ValidateState::forget_region(uint64_t region) {
  hazards.forget(region);
  const std::lock_guard lock(names_mutex_);
  names_.erase(region);
}

ValidatedPlugin::ValidatedPlugin(const tn_plugin& below, ValidateState& state)
    : Interposer(below),
      state_(state),
      device_region_(state.regions.fetch_add(1)),
      pool_notes_{{sizeof(PoolNotes), 1, 0}, this, &note_acquired, &note_released} {
  state.plugins.push_back(this);
}

int32_t ValidatedPlugin::around(Function /*function*/, const void* /*subject*/, tn_error* /*error*/,
                                const Call& call) {
  call_number = state_.calls.fetch_add(1, std::memory_order_relaxed) + 1;
  return call();
}

void ValidatedPlugin::begin(Object& object, const char* given_name, const std::string& detail) {
  const uint64_t number = state_.made[static_cast<size_t>(object.kind)].fetch_add(1) + 1;
  const bool named = given_name != nullptr && *given_name != '\0';
  object.name = std::string(kind_name(object.kind)) +
                (named ? " '" + std::string(given_name) + "'" : " #" + std::to_string(number));
  object.made_at = current_call();
  object.story = detail + "made by call #" + std::to_string(object.made_at);
  if (object.device) object.story += " on " + object.device->name;
}

void ValidatedPlugin::enqueued(const StreamObject& stream, std::string what, std::span<const Access> uses) {
  const auto operation =
      std::make_shared<const Operation>(Operation{current_call(), std::move(what), stream.name});
  for (const Conflict& conflict : state_.hazards.run(stream.slot, operation, uses))
    tell(conflict, *operation);
}

void ValidatedPlugin::tell(const Conflict& conflict, const Operation& now) {
  const Operation& earlier = *conflict.earlier;
  const auto verb = [](const Access& use) { return use.write ? " writes " : " reads "; };
  const std::string text =
      "hazard: " + earlier.name + " #" + std::to_string(earlier.call) + " on " + earlier.stream +
      verb(conflict.earlier_use) + state_.name_of(conflict.earlier_use) + "; " + now.name + " #" +
      std::to_string(now.call) + " on " + now.stream + verb(conflict.later_use) +
      state_.name_of(conflict.later_use) + " and never waited for it: make " + now.stream +
      " wait for a value that " + earlier.stream + " records after #" + std::to_string(earlier.call);
  const std::string key = "hazard|" + earlier.name + earlier.stream + verb(conflict.earlier_use) + now.name +
                          now.stream + verb(conflict.later_use) + std::to_string(conflict.later_use.region);
  state_.findings.add(TN_LOG_WARN, key, text);
}

int32_t ValidatedPlugin::settle(const std::shared_ptr<DeviceObject>& device, int32_t code) {
  if (code == TN_DEVICE_LOST && device) device->lost = true;
  return code;
}

std::vector<std::shared_ptr<Object>> ValidatedPlugin::children(const DeviceObject* device) const {
  std::vector<std::shared_ptr<Object>> out;
  const auto collect = [&](const auto& book) {
    for (const auto& [handle, object] : book.all()) {
      if (device == nullptr || object->device.get() == device) out.push_back(object);
    }
  };
  collect(memories_);
  collect(streams_);
  collect(kernels_);
  collect(comms_);
  if (device == nullptr) collect(devices_);
  std::ranges::sort(out, {}, [](const auto& object) { return object->made_at; });
  return out;
}

void ValidatedPlugin::tell_leaks(const std::string& when, const DeviceObject* of) {
  for (const auto& object : children(of)) {
    if (object->leak_told.exchange(true)) continue;
    const char* end = object->kind == Kind::memory   ? "free it"
                      : object->kind == Kind::device ? "close it"
                                                     : "destroy it";
    state_.findings.add(TN_LOG_WARN, "leak|" + object->name + "|" + std::to_string(object->made_at),
                        "leak: " + describe(*object) + " still lives " + when + ": " + end + " before");
  }
}

const void* ValidatedPlugin::extension(const char* id) {
  if (id != nullptr && std::strcmp(id, pool_notes_id) == 0) return &pool_notes_;
  if (id != nullptr && std::strcmp(id, TN_CAPTURE_ID) == 0) return nullptr;
  return Interposer::extension(id);
}

int32_t ValidatedPlugin::quiesce(P* p, E* e) {
  std::vector<Hazards::Moment> enqueued_before;
  for (const auto& [handle, stream] : streams_.all())
    enqueued_before.push_back(state_.hazards.now(stream->slot));
  const int32_t code = Interposer::quiesce(p, e);
  if (code != TN_OK) return code;
  for (const Hazards::Moment& moment : enqueued_before) state_.hazards.over(moment);
  return code;
}

int32_t ValidatedPlugin::shutdown(P* p, E* e) {
  tell_leaks("at shutdown");
  return Interposer::shutdown(p, e);
}

class ValidateLayer final : public InterposingLayer {
 public:
  ValidateLayer(Log log, bool strict) : state_(std::move(log), strict) {}
  ~ValidateLayer() override {
    static_cast<void>(ValidateLayer::finish());
    drop_interposers();
  }
  std::vector<std::string> report() const override {
    auto out = InterposingLayer::report();
    for (std::string& finding : state_.findings.list()) out.push_back(std::move(finding));
    return out;
  }
  Status finish() override {
    for (ValidatedPlugin* plugin : state_.plugins) plugin->tell_leaks("when the host is done");
    return {};
  }

 private:
  std::unique_ptr<Interposer> interpose(const tn_plugin& below) override {
    return std::make_unique<ValidatedPlugin>(below, state_);
  }
  ValidateState state_;
};

Result<std::unique_ptr<Layer>> make_validate(std::string_view argument, Log log) {
  if (!argument.empty() && argument != "report") {
    return Status(TN_INVALID,
                  "layer validate takes 'report' or nothing, not '" + std::string(argument) + "'");
  }
  return std::unique_ptr<Layer>(std::make_unique<ValidateLayer>(std::move(log), argument.empty()));
}

}  // namespace tenon::layers
