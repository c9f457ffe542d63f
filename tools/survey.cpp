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
  explicit Steps(const SurveyRequest& asked) : asked_(asked) {}

  // Before `doing` ("opened cpu:0"): "" to go on, or why not. The search tries library after library, each with a limit of
  // its own, so it may take longer.
  std::string before(const std::string& doing, int times = 1) const {
    const auto known = asked_.fatal.find(doing);
    if (known != asked_.fatal.end())
      return "a process that " + doing + " " + known->second + ": tell its vendor";
    asked_.tell(doing, times * asked_.patience);
    return "";
  }
  bool is_fatal(const std::string& doing) const { return asked_.fatal.contains(doing); }

 private:
  const SurveyRequest& asked_;
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

// A remembered verdict may be what let a library in that ends this process: the second time each is tried anew.
std::string look_for_plugins(const Steps& steps, RuntimeOptions& options) {
  const std::string first = "looked for plugins";
  if (!steps.is_fatal(first)) return steps.before(first, 20);
  options.options["probe.cache"] = "";
  return steps.before("looked for plugins and tried each anew", 20);
}

// What comes at the very end may be fatal, too: then the process ends without it.
void end(std::unique_ptr<Runtime> runtime, const Steps& steps, Survey& out) {
  const std::string trouble = steps.before("let all plugins go");
  if (trouble.empty()) return runtime.reset();
  out.notes.push_back(trouble);
  static_cast<void>(runtime.release());
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

Survey survey(const SurveyRequest& asked) {
  Survey out;
  const Steps steps(asked);
  out.version = tenon::version();
  out.abi = std::to_string(TN_ABI_MAJOR) + "." + std::to_string(TN_ABI_MINOR);
  out.machine = this_machine();
  out.environment = environment_that_matters();
  Log log;
  RuntimeOptions options{.search_path = asked.search_path, .log_level = LogLevel::info, .log = log.sink()};
  const std::string trouble = look_for_plugins(steps, options);
  out.looked = trouble.empty();
  if (!out.looked) {
    out.notes.push_back(trouble);
    return out;
  }
  auto opened = open_runtime(out, options);
  if (opened.ok()) {
    auto runtime = std::make_unique<Runtime>(*std::move(opened));
    out.folders.assign(runtime->folders().begin(), runtime->folders().end());
    for (Runtime::Folder& folder : out.folders) {
      if (folder.origin == "options.search_path") folder.origin = "--plugin-path";
    }
    for (const Candidate& candidate : runtime->candidates())
      out.plugins.push_back(look_at(*runtime, candidate, log, out, steps));
    end(std::move(runtime), steps, out);
  } else {
    out.notes.emplace_back(opened.message());
  }
  for (const Line& line : log.take()) note(out, line);
  return out;
}

}  // namespace tenon::tool
