// SPDX-License-Identifier: Apache-2.0
// trace.cpp: `tenon trace RUN.json…`: what a measured run adds up to, and its lanes as a page; and `tenon trace --flight
// FOLDER`: what ranks wrote down when their communicator failed.
#include "command.hpp"
#include "flight_story.hpp"
#include "text_file.hpp"
#include "trace_page.hpp"

#include <tenon/trace.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>

namespace tenon::tool {

namespace {

struct Asked {
  std::vector<std::string> files{};
  std::string html{}, json{}, flights{};
};

Status traced(const Asked& asked) {
  const Trace trace = TN_TRY(Trace::read(asked.files));
  const std::string text = summarize(trace).text();
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!asked.json.empty()) TN_TRY(trace.write(asked.json));
  if (asked.html.empty()) return {};
  std::vector<std::string> names;
  for (const std::string& file : asked.files)
    names.push_back(std::filesystem::path(file).filename().string());
  return write_text(asked.html, trace_page(trace, names));
}

Status told(const std::string& flights) {
  const std::string story = TN_TRY(tell_flight(flights));
  std::fwrite(story.data(), 1, story.size(), stdout);
  return {};
}

int run_trace(const Asked& asked) {
  if (asked.files.empty() == asked.flights.empty()) {
    return usage_error(
        "trace needs the files that Timeline::write wrote, one for each rank, or --flight with a folder. See "
        "`tenon trace --help`.");
  }
  const Status done = asked.flights.empty() ? traced(asked) : told(asked.flights);
  return done.ok() ? exit_good : usage_error(std::string(done.message()));
}

}  // namespace

Command add_trace(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "trace",
      "Adds a measured run up: exposed communication, overlap, predicted against actual; as a page, too");
  const auto asked = std::make_shared<Asked>();
  app->add_option("FILES", asked->files, "What Timeline::write wrote, one for each rank");
  app->add_option("--html", asked->html, "Writes one page with the lanes and the sums")->type_name("FILE");
  app->add_option("--json", asked->json, "Writes all ranks into one file, for ui.perfetto.dev")
      ->type_name("FILE");
  app->add_option("--flight", asked->flights, "Tells from the flight records in a folder who waited for whom")
      ->type_name("FOLDER");
  return {app, [asked] { return run_trace(*asked); }};
}

}  // namespace tenon::tool
