// SPDX-License-Identifier: Apache-2.0
// The benchmark of options: whole steps of the samples' networks, by default and with one option set to another value.
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

void run(const Trials& trials, const Choice& choice) {
  const Task task{.model = trials.model, .batch = trials.batch, .ranks = trials.ranks};
  const std::string changed = std::string(choice.option) + "=" + choice.other;
  std::vector<std::string> other = choice.base;
  other.push_back(changed);
  std::vector<Rider> riders;
  riders.push_back({"by default", Racer::ours(task, choice.base)});
  riders.push_back({changed, Racer::ours(task, other)});
  std::string name =
      trials.model + "/" + std::to_string(trials.ranks) + (trials.ranks == 1 ? " rank" : " ranks");
  for (const std::string& word : choice.base) name += ", " + word;
  contest(name, std::move(riders));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> asked(argv + 1, argv + argc);
  note(
      "a step with every option as it is by default, or as the row's name says, and one with another value: "
      "above 1 the default is faster");
  for (const Trials& trials : all_trials()) {
    for (const Choice& choice : trials.choices) {
      if (asked.empty() || std::find(asked.begin(), asked.end(), choice.option) != asked.end())
        run(trials, choice);
    }
  }
}
