// SPDX-License-Identifier: Apache-2.0
// load_changes_folder.cpp: as it is entered the plugin goes to the folder of its data.
#include "wrong.hpp"

#include <unistd.h>

WRONG_PLUGIN(tables) { static_cast<void>(!chdir("/")); }
