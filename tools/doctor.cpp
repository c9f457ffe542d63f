// SPDX-License-Identifier: Apache-2.0
// doctor.cpp: `tenon doctor`: what is here, what is not, and why. A bad plugin is news, not a failure: exit 0.
#include "command.hpp"
#include "survey.hpp"
#include "text.hpp"

#include <cstdio>
#include <memory>

namespace tenon::tool {

namespace {

struct DoctorRequest {
  bool json = false;
  std::vector<std::string> folders{};
};

int run_doctor(const DoctorRequest& asked) {
  const Survey found = survey(asked.folders);
  const std::string text = asked.json ? survey_json(found) : survey_text(found, wants_colours(1));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0 ? exit_good : exit_bad;
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
  return {app, [asked] { return run_doctor(*asked); }};
}

}  // namespace tenon::tool
