// SPDX-License-Identifier: Apache-2.0
// options.cpp: see options.hpp.
#include "common/options.hpp"

#include <cstdio>
#include <cstdlib>

namespace sample {
namespace {

using namespace tenon;

Result<double> number(const std::string& word, const std::string& value, double least) {
  char* end = nullptr;
  const double out = std::strtod(value.c_str(), &end);
  if (!value.empty() && *end == '\0' && out >= least && out <= 1e9) return out;
  char from[32];
  std::snprintf(from, sizeof from, "%g", least);
  return Status(TN_INVALID, word + " is '" + value + "', no number from " + from + " on");
}

Result<bool> take(Options& into, const std::string& word, const std::string& value) {
  if (word == "--batch") {
    into.batch = static_cast<uint64_t>(TN_TRY(number(word, value, 1)));
  } else if (word == "--steps") {
    into.steps = static_cast<uint64_t>(TN_TRY(number(word, value, 1)));
  } else if (word == "--rate") {
    into.rate = TN_TRY(number(word, value, 0));
  } else if (word == "--plot") {
    into.plot = value;
  } else if (word == "--strategy") {
    TN_TRY(into.strategy.read_file(value));
  } else if (word == "--set") {
    const size_t equal = value.find('=');
    if (equal == std::string::npos) return Status(TN_INVALID, "--set is '" + value + "': give NAME=VALUE");
    TN_TRY(into.strategy.set(value.substr(0, equal), value.substr(equal + 1), "--set"));
  } else {
    return false;
  }
  return true;
}

Status take_all(Options& into, int argc, char** argv, const Own& own) {
  TN_TRY(into.strategy.take_environment());
  for (int i = 1; i < argc; i += 2) {
    const std::string word = argv[i];
    if (i + 1 == argc) return {TN_INVALID, "'" + word + "' has no value"};
    bool is_known = TN_TRY(take(into, word, argv[i + 1]));
    if (!is_known && own) is_known = TN_TRY(own(word, argv[i + 1]));
    if (!is_known) return {TN_INVALID, "'" + word + "' is no option of this sample"};
  }
  return {};
}

}  // namespace

Status read_options(Options& into, int argc, char** argv, const std::string& usage, const Own& own) {
  const Status taken = take_all(into, argc, argv, own);
  if (taken.ok()) return {};
  return {taken.code(), taken.error().message + "\nusage: " + usage + " " + usual};
}

}  // namespace sample
