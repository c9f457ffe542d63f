// SPDX-License-Identifier: Apache-2.0
// replay.cpp: `tenon replay FILE --on PLUGIN`: makes the calls of a recording again and says where the outcome differs.
#include "command.hpp"
#include "text.hpp"

#include <tenon/replay.hpp>
#include <tenon/runtime.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>

namespace tenon::tool {

namespace {

struct ReplayRequest {
  std::string file{}, plugin{};
  std::optional<uint32_t> device{};
  bool partial = false;
  std::vector<std::string> folders{};
};

// A name as it stands; for a file, the name of the plugin that it holds.
Result<std::string> name_of(const Runtime& runtime, const std::string& wanted, bool is_file) {
  if (!is_file) return wanted;
  std::error_code ignored;
  for (const Candidate& candidate : runtime.candidates()) {
    if (!std::filesystem::equivalent(candidate.path, wanted, ignored)) continue;
    if (candidate.state == Candidate::State::loaded) return candidate.name;
    return Status(TN_NOT_FOUND, "'" + wanted + "' was not loaded: " + candidate.reason);
  }
  return Status(TN_NOT_FOUND, "there is no file '" + wanted + "'");
}

std::string counted(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void tell(const ReplayReport& report, const std::string& on) {
  std::printf("recorded on %s, replayed on %s in %.1f s\n", report.recorded_on.c_str(), on.c_str(),
              report.seconds);
  std::printf("%s of %s made, %llu skipped, %s compared\n", counted(report.calls, "call").c_str(),
              counted(report.steps, "step").c_str(), static_cast<unsigned long long>(report.skipped),
              counted(report.downloads, "download").c_str());
  for (const std::string& note : report.notes) std::printf("note: %s\n", note.c_str());
  if (report.first) {
    std::printf("first difference, at step %llu: %s\n", static_cast<unsigned long long>(report.first->step),
                report.first->what.c_str());
  }
  std::printf("%s\n", report.same() ? "The outcome is the same."
                                    : (counted(report.differences, "difference") + ".").c_str());
}

Result<ReplayReport> replay_on(const ReplayRequest& asked) {
  RuntimeOptions options{.search_path = asked.folders};
  const bool is_file = asked.plugin.find('/') != std::string::npos || asked.plugin.ends_with(".so");
  if (is_file) options.plugins.push_back(asked.plugin);
  Runtime runtime = TN_TRY(Runtime::open(options));
  const std::string name = TN_TRY(name_of(runtime, asked.plugin, is_file));
  const tn_plugin* const plugin = TN_TRY(runtime.plugin(name));
  ReplayOptions how;
  how.device = asked.device;
  how.accept_truncated = asked.partial;
  if (is_terminal(2)) {
    how.progress = [](uint64_t step, uint64_t steps) {
      std::fprintf(stderr, "\r\033[K%llu/%llu%s", static_cast<unsigned long long>(step),
                   static_cast<unsigned long long>(steps), step == steps ? "\r\033[K" : "");
    };
  }
  return tenon::replay(asked.file, *plugin, how);
}

int run_replay(const ReplayRequest& asked) {
  if (asked.file.empty() || asked.plugin.empty()) {
    return usage_error("replay needs a recording and --on PLUGIN. See `tenon replay --help`.");
  }
  const auto report = replay_on(asked);
  if (!report.ok()) return usage_error(std::string(report.message()));
  tell(*report, asked.plugin);
  return report->same() ? exit_good : exit_bad;
}

}  // namespace

Command add_replay(CLI::App& tool) {
  CLI::App* app =
      tool.add_subcommand("replay", "Makes the calls of a recording again, on any plugin, and compares");
  const auto asked = std::make_shared<ReplayRequest>();
  app->add_option("FILE", asked->file, "What the layer record=FILE wrote");
  app->add_option("--on", asked->plugin, "A library file, or the name of a plugin")->type_name("PLUGIN");
  app->add_option("--device", asked->device, "Ordinal to use for every recorded device")->type_name("N");
  app->add_flag("--partial", asked->partial, "Replay what there is of a recording that was cut off");
  app->add_option("--plugin-path", asked->folders, "Folders to search first")
      ->type_name("DIR")
      ->allow_extra_args(false);
  return {app, [asked] { return run_replay(*asked); }};
}

}  // namespace tenon::tool
