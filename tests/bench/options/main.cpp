// SPDX-License-Identifier: Apache-2.0
// The benchmark of options: whole steps of the samples' networks, by default and with one option set to another value; and as `auto`
// chooses, beside each single setting that it may choose.
//
//   bench_options            all rows
//   bench_options OPTION …   those of these options
//
// Invariant: both racers of a contest have all other options alike; standard output carries one JSON object a line and nothing else.
#include "../row.hpp"
#include "../train/contest.hpp"
#include "choices.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace bench;

std::string counted(uint32_t ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

void run(const Trials& trials, const Choice& choice) {
  const Task task{.model = trials.model, .batch = trials.batch, .ranks = trials.ranks};
  const std::string changed = std::string(choice.option) + "=" + choice.other;
  std::vector<std::string> other = choice.base;
  other.push_back(changed);
  std::vector<Rider> riders;
  riders.push_back({"by default", Racer::ours(task, choice.base)});
  riders.push_back({changed, Racer::ours(task, other)});
  std::string name = trials.model + "/" + counted(trials.ranks);
  for (const std::string& word : choice.base) name += ", " + word;
  contest(name, std::move(riders));
}

// What was measured before the first step is not counted, as it is not by who trains for days.
void run(const Automatic& automatic) {
  const Task task{.model = automatic.model, .batch = automatic.batch, .ranks = automatic.ranks};
  std::vector<Rider> riders;
  riders.push_back({"auto=true", Racer::ours(task, {"auto=true"})});
  riders.push_back({"by default", Racer::ours(task, {})});
  for (const std::string& setting : automatic.settings)
    riders.push_back({setting, Racer::ours(task, {setting})});
  contest("auto/" + automatic.model + "/" + counted(automatic.ranks), std::move(riders));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> asked(argv + 1, argv + argc);
  const auto is_asked = [&](const char* option) {
    return asked.empty() || std::find(asked.begin(), asked.end(), option) != asked.end();
  };
  note(
      "a step with every option as it is by default, or as the row's name says, and one with another value: "
      "above 1 the default is faster");
  for (const Trials& trials : all_trials()) {
    for (const Choice& choice : trials.choices) {
      if (is_asked(choice.option)) run(trials, choice);
    }
  }
  if (!is_asked("auto")) return 0;
  for (const Automatic& automatic : all_automatic()) run(automatic);
}
