// SPDX-License-Identifier: Apache-2.0
// load_hangs.cpp: a constructor of the library waits for a driver that does not answer.
#include "wrong.hpp"

#include <unistd.h>

[[maybe_unused]] static const bool ready = [] {
  while (getppid() != 0) pause();
  return true;
}();

WRONG_PLUGIN(tables) {}
