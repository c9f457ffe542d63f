// SPDX-License-Identifier: Apache-2.0
// survey.cpp: opens the runtime as a program would and asks it everything.
#include "survey.hpp"

#include <tenon/abi.h>
#include <tenon/version.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

namespace tenon::tool {

namespace {

struct Line {
  LogLevel level;
  std::string component, text;
};

// What the host logs. The runtime, and so the sink, may outlive the survey.
class Log {
 public:
  LogSink sink() const {
    return [held = held_](LogLevel level, std::string_view component, std::string_view text) {
      const std::lock_guard lock(held->mutex);
      held->lines.push_back({level, std::string(component), std::string(text)});
    };
  }

  // Those since the last call.
  std::vector<Line> take() {
    const std::lock_guard lock(held_->mutex);
    return std::exchange(held_->lines, {});
  }

 private:
  struct Held {
    std::mutex mutex{};
    std::vector<Line> lines{};
  };
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
};

void note(Survey& out, const Line& line) {
  if (line.level <= LogLevel::warn) out.notes.push_back(line.component + ": " + line.text);
}

// The steps that run code of plugins.
class Steps {
 public:
  Steps(const TellStep& tell, const Fatal& fatal) : tell_(tell), fatal_(fatal) {}

  // Before `doing` ("opened cpu:0"): "" to go on, or why not.
  std::string before(const std::string& doing) const {
    const auto known = fatal_.find(doing);
    if (known == fatal_.end()) return tell_(doing), "";
    return "a process that " + doing + " " + known->second + ": tell its vendor";
  }

 private:
  const TellStep& tell_;
  const Fatal& fatal_;
};

SurveyedDevice look_at(Runtime& runtime, const std::string& name, const tn_device_info& info,
                       const Steps& steps) {
  SurveyedDevice out{.name = name, .info = info};
  out.trouble = steps.before("opened " + name);
  if (!out.trouble.empty()) return out;
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

SurveyedPlugin look_at(Runtime& runtime, const Candidate& candidate, Log& log, Survey& survey,
                       const Steps& steps) {
  SurveyedPlugin out{.candidate = candidate};
  if (candidate.state != Candidate::State::loaded) return out;
  out.trouble = steps.before("counted the devices of " + candidate.name);
  if (!out.trouble.empty()) return out;
  auto infos = runtime.devices(candidate.name);
  if (!infos.ok()) {
    out.trouble = infos.message();
    return out;
  }
  for (size_t i = 0; i < infos->size(); ++i) {
    for (const Line& line : log.take()) note(survey, line);
    SurveyedDevice device = look_at(runtime, candidate.name + ":" + std::to_string(i), (*infos)[i], steps);
    for (Line& line : log.take()) {
      if (line.component != candidate.name) {
        note(survey, line);
      } else if (line.level <= LogLevel::info) {
        device.told.push_back(std::move(line.text));
      }
    }
    out.devices.push_back(std::move(device));
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

Survey survey(const std::vector<std::string>& search_path, const TellStep& tell, const Fatal& fatal) {
  Survey out;
  const Steps steps(tell, fatal);
  out.version = tenon::version();
  out.abi = std::to_string(TN_ABI_MAJOR) + "." + std::to_string(TN_ABI_MINOR);
  out.machine = this_machine();
  out.environment = environment_that_matters();
  if (const std::string trouble = steps.before("looked for plugins"); !trouble.empty()) {
    out.notes.push_back(trouble);
    return out;
  }
  Log log;
  const RuntimeOptions options{.search_path = search_path, .log_level = LogLevel::info, .log = log.sink()};
  auto runtime = open_runtime(out, options);
  if (runtime.ok()) {
    out.folders.assign(runtime->folders().begin(), runtime->folders().end());
    for (Runtime::Folder& folder : out.folders) {
      if (folder.origin == "options.search_path") folder.origin = "--plugin-path";
    }
    for (const Candidate& candidate : runtime->candidates())
      out.plugins.push_back(look_at(*runtime, candidate, log, out, steps));
  } else {
    out.notes.emplace_back(runtime.message());
  }
  for (const Line& line : log.take()) note(out, line);
  return out;
}

}  // namespace tenon::tool
