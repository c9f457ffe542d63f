// SPDX-License-Identifier: Apache-2.0
// survey.hpp: what `tenon doctor` found, before it is told to a person or a program.
//
// Invariant: a survey never fails: what cannot be found out is told with its reason.
#pragma once

#include "machine.hpp"
#include "scout.hpp"

#include <tenon/runtime.hpp>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace tenon::tool {

struct SurveyedDevice {
  std::string name{};  // "cpu:0"
  tn_device_info info{};
  std::string trouble{};  // why it could not be opened; the rest is empty then
  tn_device_limits limits{};
  tn_memory_info memory{};
  std::vector<std::string> emulated{};
  std::vector<std::string> told{};  // what the plugin said as it was opened: libraries that are here, or not
};

struct SurveyedPlugin {
  Candidate candidate{};
  std::vector<SurveyedDevice> devices{};
  std::string trouble{};  // why its devices could not be counted
};

struct Survey {
  std::string version{}, abi{};
  std::vector<Runtime::Folder> folders{};
  std::vector<SurveyedPlugin> plugins{};
  Machine machine{};
  std::vector<std::pair<std::string, std::string>> environment{};
  std::vector<std::string> layers{};  // active ones
  std::vector<std::string> notes{};   // what else went wrong, and what the host logged
  bool looked = true;                 // whether plugins could be looked for at all

  // Of the plugins: those that were loaded, and among them those with a device that opens.
  size_t loaded() const noexcept;
  size_t usable() const noexcept;
};

// Steps from which a process does not come back, and how it ended instead.
using Fatal = std::map<std::string, std::string>;

struct SurveyRequest {
  std::vector<std::string> search_path{};  // before the other folders
  std::chrono::seconds patience{60};       // with a step of one plugin
  TellStep tell{};                         // told each step that runs a plugin's code
  Fatal fatal{};                           // steps to leave out
};
// Looks at everything. [one thread; may block; cannot fail]
Survey survey(const SurveyRequest& asked);
std::string survey_text(const Survey& found, bool colours);
std::string survey_json(const Survey& found);

}  // namespace tenon::tool
