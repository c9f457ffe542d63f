// SPDX-License-Identifier: Apache-2.0
// probe_main.cpp: tenon-probe LIBRARY NAME MIN MAX, the program in which unknown libraries are tried.
//
// Started by libtenon with base::answer_fd open. By hand, `tenon-probe LIBRARY` runs the same steps, in a debugger
// too, and the answer goes to the terminal.
#include "base/child.hpp"
#include "plugin/probe.hpp"

#include <cstdio>

int main(int count, char** arguments) {
  using namespace tenon::plugin;
  if (count != 2 && count != 5) {
    std::fputs("usage: tenon-probe LIBRARY [NAME MIN_ABI MAX_ABI]\n", stderr);
    return 2;
  }
  AbiRange range{{TN_ABI_MAJOR, 0}, {TN_ABI_MAJOR, TN_ABI_MINOR}};
  if (count == 5) {
    range = {abi_version_from(arguments[3]).value_or(range.min),
             abi_version_from(arguments[4]).value_or(range.max)};
    tenon::base::become_expendable();
  }
  if (count == 2) tenon::base::answer_on_stdout();
  run_probe_child(arguments[1], count == 5 ? arguments[2] : "", range);
}
