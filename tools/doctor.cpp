// SPDX-License-Identifier: Apache-2.0
// doctor.cpp: `tenon doctor`: what is here, what is not, and why. A bad plugin is news, not a failure: exit 0.
// Plugins and their devices are opened in a child process: one that takes it down costs its own line, not the others'.
#include "command.hpp"
#include "survey.hpp"
#include "text.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace tenon::tool {

namespace {

struct DoctorRequest {
  bool json = false;
  std::vector<std::string> folders{};
  uint32_t deadline = 60;
};

// Again without the step that was fatal, until a child comes back.
int run_doctor(const DoctorRequest& asked) {
  SurveyRequest request{.search_path = asked.folders, .patience = std::chrono::seconds(asked.deadline)};
  for (;;) {
    const auto work = [&](const TellStep& tell) {
      request.tell = tell;
      const Survey found = survey(request);
      return asked.json ? survey_json(found) : survey_text(found, wants_colours(1));
    };
    const Scouted scouted = scout(work, request.patience);
    if (scouted.end.empty()) {
      std::fwrite(scouted.answer.data(), 1, scouted.answer.size(), stdout);
      return std::fflush(stdout) == 0 ? exit_good : exit_bad;
    }
    if (scouted.step.empty() || !request.fatal.emplace(scouted.step, scouted.end).second) {
      std::fprintf(stderr, "tenon doctor: the process that looks around %s\n", scouted.end.c_str());
      return exit_bad;
    }
  }
}

}  // namespace

Command add_doctor(CLI::App& tool) {
  CLI::App* app =
      tool.add_subcommand("doctor", "Says what was found on this machine and what was not, and why");
  const auto asked = std::make_shared<DoctorRequest>();
  app->add_flag("--json", asked->json, "The same as JSON");
  app->add_option("--plugin-path", asked->folders, "Folders to search first")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app->add_option("--deadline", asked->deadline, "How long a plugin may take to open a device")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86400));
  return {app, [asked] { return run_doctor(*asked); }};
}

}  // namespace tenon::tool
