// SPDX-License-Identifier: Apache-2.0
// load_handles_crashes.cpp: as it is loaded the library takes SIGSEGV for itself, to write a report of its own.
#include "wrong.hpp"

#include <csignal>
#include <cstdlib>

[[maybe_unused]] static const auto before = std::signal(SIGSEGV, [](int) { std::_Exit(1); });

WRONG_PLUGIN(tables) {}
