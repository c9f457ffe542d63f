// SPDX-License-Identifier: Apache-2.0
// launch_blocks.cpp: a launch comes back when it has run.
#include "wrong.hpp"

WRONG_PLUGIN(tables) { tables.kernel.launch = wrong::launch_and_wait; }
