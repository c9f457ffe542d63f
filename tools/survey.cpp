// SPDX-License-Identifier: Apache-2.0
// survey.cpp: opens the runtime as a program would and asks it everything.
#include "survey.hpp"

#include <tenon/abi.h>
#include <tenon/version.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace tenon::tool {

namespace {

SurveyedDevice look_at(Runtime& runtime, const std::string& name, const tn_device_info& info) {
  SurveyedDevice out{.name = name, .info = info};
  auto device = runtime.device(name);
  if (!device.ok()) {
    out.trouble = device.message();
    return out;
  }
  out.limits = device->limits();
  out.emulated = device->emulated();
  auto memory = device->memory_info();
  if (memory.ok()) {
    out.memory = *memory;
  } else {
    out.trouble = memory.message();
  }
  return out;
}

SurveyedPlugin look_at(Runtime& runtime, const Candidate& candidate) {
  SurveyedPlugin out{.candidate = candidate};
  if (candidate.state != Candidate::State::loaded) return out;
  auto infos = runtime.devices(candidate.name);
  if (!infos.ok()) {
    out.trouble = infos.message();
    return out;
  }
  for (size_t i = 0; i < infos->size(); ++i) {
    out.devices.push_back(look_at(runtime, candidate.name + ":" + std::to_string(i), (*infos)[i]));
  }
  return out;
}

// As they were written: their arguments may hold the separator.
std::vector<std::string> layers_asked_for() {
  const char* const set = std::getenv("TENON_LAYERS");
  return set != nullptr && *set != '\0' ? std::vector<std::string>{set} : std::vector<std::string>{};
}

// Opens the runtime; when the environment contradicts itself, says so and opens it without the environment.
Result<Runtime> open_runtime(Survey& out, RuntimeOptions options) {
  auto runtime = Runtime::open(options);
  if (runtime.ok()) {
    out.layers = layers_asked_for();
    return runtime;
  }
  out.notes.emplace_back(runtime.message());
  options.use_environment = false;
  return Runtime::open(options);
}

}  // namespace

size_t Survey::loaded() const noexcept {
  return static_cast<size_t>(std::count_if(plugins.begin(), plugins.end(), [](const SurveyedPlugin& p) {
    return p.candidate.state == Candidate::State::loaded;
  }));
}

size_t Survey::usable() const noexcept {
  return static_cast<size_t>(std::count_if(plugins.begin(), plugins.end(), [](const SurveyedPlugin& p) {
    return std::any_of(p.devices.begin(), p.devices.end(),
                       [](const SurveyedDevice& device) { return device.trouble.empty(); });
  }));
}

Survey survey(const std::vector<std::string>& search_path) {
  Survey out;
  out.version = tenon::version();
  out.abi = std::to_string(TN_ABI_MAJOR) + "." + std::to_string(TN_ABI_MINOR);
  out.machine = this_machine();
  out.environment = environment_that_matters();
  // The runtime, and so the sink, may outlive this call.
  const auto log = std::make_shared<std::pair<std::mutex, std::vector<std::string>>>();
  RuntimeOptions options{.search_path = search_path};
  options.log = [log](LogLevel, std::string_view component, std::string_view text) {
    const std::lock_guard lock(log->first);
    log->second.push_back(std::string(component) + ": " + std::string(text));
  };
  auto runtime = open_runtime(out, options);
  if (runtime.ok()) {
    out.folders.assign(runtime->folders().begin(), runtime->folders().end());
    for (Runtime::Folder& folder : out.folders) {
      if (folder.origin == "options.search_path") folder.origin = "--plugin-path";
    }
    for (const Candidate& candidate : runtime->candidates())
      out.plugins.push_back(look_at(*runtime, candidate));
  } else {
    out.notes.emplace_back(runtime.message());
  }
  const std::lock_guard lock(log->first);
  out.notes.insert(out.notes.end(), log->second.begin(), log->second.end());
  return out;
}

}  // namespace tenon::tool
