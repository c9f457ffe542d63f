// SPDX-License-Identifier: Apache-2.0
// replayer.cpp: devices, memories, streams, values and kernels of a replay.
#include "layers/replayer.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace tenon::layers {

using namespace recording;

template <class Function, class... Arguments>
bool Replayer::call(const char* name, int32_t recorded, Function function, Arguments... arguments) {
  tn_error error = no_error();
  const int32_t code = function(arguments..., &error);
  ++report_.calls;
  if (code != recorded) {
    differ(std::string(name) + ": recorded " + code_name(recorded) + ", now " + code_name(code) +
           (code == TN_OK ? "" : " (" + base::printable(error.message) + ")"));
  }
  return code == TN_OK;
}

void Replayer::differ(const std::string& what) {
  ++report_.differences;
  if (!report_.first) report_.first = ReplayDifference{at_, what};
}

void Replayer::skip(const std::string& why) {
  ++report_.skipped;
  if (std::ranges::find(report_.notes, why) == report_.notes.end()) report_.notes.push_back(why);
}

void Replayer::run(const Recording& recording) {
  report_.steps = recording.steps.size();
  if (!recording.complete)
    report_.notes.push_back("the recording is cut off after step " + std::to_string(report_.steps));
  for (const Step& each : recording.steps) {
    ++at_;
    std::visit([this](const auto& s) { step(s); }, each);
    if (options_.progress && at_ % 1024 == 0) options_.progress(at_, report_.steps);
  }
}

Replayer::~Replayer() {
  tn_error error = no_error();
  for (auto& [id, kernel] : kernels_) {
    if (kernel.handle != nullptr) plugin_.kernel->destroy(kernel.handle, &error);
  }
  for (auto& [id, each] : streams_) {
    for (const uint64_t promise : each.open_promises) {
      plugin_.stream->signal(each.handle, each.values[promise], TN_ABORTED, &error);
    }
  }
  for (auto& [id, each] : streams_) plugin_.stream->destroy(each.handle, TN_DESTROY_COMPLETE, &error);
  for (auto& [id, kernel] : kernels_) drop(kernel);
  for (auto& [id, memory] : memories_) plugin_.device->free(memory.handle, &error);
  for (auto& [id, device] : devices_) plugin_.device->close(device, &error);
}

// Its workspaces are free once the streams that used them have ended.
void Replayer::drop(LiveKernel& kernel) {
  tn_error error = no_error();
  for (const auto& [stream, memory] : kernel.workspaces) plugin_.device->free(memory, &error);
  kernel.workspaces.clear();
}

void Replayer::step(const Plugin& s) {
  report_.recorded_on +=
      (report_.recorded_on.empty() ? "" : ", ") + base::printable(s.name + " " + s.plugin_version);
}

void Replayer::step(const Open& s) {
  uint32_t count = 0;
  tn_error error = no_error();
  if (plugin_.device->count(&plugin_, &count, &error) != TN_OK || count == 0)
    return skip("there is no device to open");
  const uint32_t ordinal = options_.device.value_or(s.ordinal % count);
  tn_device* device = nullptr;
  if (call("open", s.code, plugin_.device->open, &plugin_, ordinal,
           static_cast<const tn_device_options*>(nullptr), &device)) {
    devices_[s.device] = device;
  }
}

void Replayer::step(const Close& s) {
  const auto device = devices_.find(s.device);
  if (device == devices_.end()) return skip("a device was not open");
  for (auto& [id, kernel] : kernels_) {
    if (kernel.device == device->second) drop(kernel);
  }
  if (call("close", s.code, plugin_.device->close, device->second)) devices_.erase(device);
}

void Replayer::step(const Alloc& s) {
  const auto device = devices_.find(s.device);
  if (device == devices_.end()) return skip("a device was not open");
  LiveMemory memory{.handle = nullptr, .bytes = s.bytes};
  if (call("alloc", s.code, plugin_.device->alloc, device->second, s.memory_kind, s.bytes, s.alignment,
           &memory.handle)) {
    memories_[s.memory] = memory;
  }
}

void Replayer::step(const Free& s) {
  const auto memory = memories_.find(s.memory);
  if (memory == memories_.end()) return skip("a memory was not allocated");
  if (call("free", s.code, plugin_.device->free, memory->second.handle)) memories_.erase(memory);
}

void Replayer::step(const Create& s) {
  const auto device = devices_.find(s.device);
  if (device == devices_.end()) return skip("a device was not open");
  tn_stream_options options{};
  options.size = sizeof options;
  options.priority = s.priority;
  options.name = s.name.empty() ? nullptr : s.name.c_str();
  LiveStream made{
      .handle = nullptr, .device = device->second, .values = {{0, 0}}, .open_promises = {}, .downloads = {}};
  if (call("stream.create", s.code, plugin_.stream->create, device->second,
           static_cast<const tn_stream_options*>(&options), &made.handle)) {
    streams_[s.stream] = std::move(made);
  }
}

void Replayer::step(const Destroy& s) {
  const auto known = streams_.find(s.stream);
  if (known == streams_.end()) return skip("a stream was not created");
  call("stream.destroy", s.code, plugin_.stream->destroy, known->second.handle,
       std::min(s.mode, TN_DESTROY_ABANDON));
  streams_.erase(known);
}

Replayer::LiveStream* Replayer::stream(Id id) {
  const auto known = streams_.find(id);
  if (known != streams_.end()) return &known->second;
  skip("a stream was not created");
  return nullptr;
}

void Replayer::step(const Record& s) {
  LiveStream* on = stream(s.stream);
  uint64_t value = 0;
  if (on != nullptr &&
      call("record", s.code, plugin_.stream->record, on->handle, s.flags & TN_RECORD_TIMED, &value)) {
    on->values[s.value] = value;
  }
}

void Replayer::step(const Wait& s) {
  LiveStream *on = stream(s.stream), *other = stream(s.other);
  if (on == nullptr || other == nullptr) return;
  call("wait", s.code, plugin_.stream->wait, on->handle, other->handle,
       std::prev(other->values.upper_bound(s.value))->second);
}

void Replayer::step(const Reached& s) {
  LiveStream* on = stream(s.stream);
  if (on == nullptr) return;
  const uint64_t value = std::prev(on->values.upper_bound(s.value))->second;
  const auto patience = std::chrono::duration_cast<std::chrono::nanoseconds>(options_.patience);
  call("sync", s.code, plugin_.stream->sync, on->handle, value, static_cast<uint64_t>(patience.count()));
}

bool Replayer::finish(LiveStream& on) {
  uint64_t value = 0;
  tn_error error = no_error();
  const auto patience = std::chrono::duration_cast<std::chrono::nanoseconds>(options_.patience);
  return plugin_.stream->record(on.handle, 0, &value, &error) == TN_OK &&
         plugin_.stream->sync(on.handle, value, static_cast<uint64_t>(patience.count()), &error) == TN_OK;
}

void Replayer::step(const HostCall& s) {
  if (LiveStream* on = stream(s.stream)) {
    static_cast<void>(on);
    skip("what a host call did is not recorded");
  }
}

void Replayer::step(const Promise& s) {
  LiveStream* on = stream(s.stream);
  uint64_t value = 0;
  if (on == nullptr || !call("promise", s.code, plugin_.stream->promise, on->handle, &value)) return;
  on->values[s.value] = value;
  on->open_promises.insert(s.value);
}

void Replayer::step(const Signal& s) {
  LiveStream* on = stream(s.stream);
  if (on == nullptr) return;
  if (on->open_promises.erase(s.value) == 0) return skip("a promise was not made");
  call("signal", TN_OK, plugin_.stream->signal, on->handle, on->values[s.value], s.signalled);
}

void Replayer::step(const Unknown& s) { skip(base::printable(s.what)); }

void Replayer::step(const Compile& s) {
  const auto device = devices_.find(s.device);
  if (device == devices_.end() || plugin_.kernel == nullptr)
    return skip("a device was not open, or has no kernels");
  if (!sound(s.fragment)) return skip("a recorded fragment does not fit together");
  const FragmentView fragment(s.fragment);
  tn_compile_options options{};
  options.size = sizeof options;
  options.budget_ms = s.budget_ms;
  options.workspace_limit = s.workspace_limit;
  LiveKernel kernel{.handle = nullptr,
                    .device = device->second,
                    .workspace_bytes = 0,
                    .binding_count = s.fragment.inputs.size() + s.fragment.outputs.size(),
                    .workspaces = {}};
  if (!call("compile", s.code, plugin_.kernel->compile, device->second, &fragment.abi(),
            static_cast<const tn_compile_options*>(&options), &kernel.handle)) {
    return;
  }
  tn_kernel_info info{};
  info.size = sizeof info;
  tn_error error = no_error();
  if (plugin_.kernel->info(kernel.handle, &info, &error) == TN_OK)
    kernel.workspace_bytes = info.workspace_bytes;
  kernels_[s.kernel] = std::move(kernel);
}

// This plugin's kernels need workspaces of their own size: one per kernel and stream, kept until the device closes.
tn_span Replayer::workspace(LiveKernel& kernel, Id on) {
  if (kernel.workspace_bytes == 0) return {};
  tn_memory*& memory = kernel.workspaces[on];
  tn_error error = no_error();
  if (memory == nullptr) {
    plugin_.device->alloc(kernel.device, TN_MEMORY_DEVICE, kernel.workspace_bytes, 0, &memory, &error);
  }
  return tn_span{memory, 0, memory == nullptr ? 0 : kernel.workspace_bytes, TN_SPACE_MEMORY, 0};
}

void Replayer::step(const Launch& s) {
  LiveStream* on = stream(s.stream);
  const auto kernel = kernels_.find(s.kernel);
  if (on == nullptr) return;
  if (kernel == kernels_.end()) return skip("a kernel was not compiled");
  std::vector<tn_span> bindings;
  std::vector<std::byte> none;
  bool fits = s.bindings.size() == kernel->second.binding_count;
  for (const SpanNote& each : s.bindings) {
    fits = fits && inside(each) && (each.memory != 0 || each.bytes == 0);
    if (fits) bindings.push_back(span(each, none));
  }
  if (!fits) return skip("a launch's bindings are not in the recorded memories");
  const tn_span scratch = workspace(kernel->second, s.stream);
  call("launch", s.code, plugin_.kernel->launch, kernel->second.handle, on->handle,
       static_cast<const tn_span*>(bindings.data()), static_cast<uint32_t>(bindings.size()), &scratch);
}

void Replayer::step(const DestroyKernel& s) {
  const auto kernel = kernels_.find(s.kernel);
  if (kernel == kernels_.end() || kernel->second.handle == nullptr) return skip("a kernel was not compiled");
  call("kernel.destroy", s.code, plugin_.kernel->destroy, kernel->second.handle);
  kernel->second.handle = nullptr;
}

}  // namespace tenon::layers
