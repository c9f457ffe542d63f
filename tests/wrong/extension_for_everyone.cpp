// SPDX-License-Identifier: Apache-2.0
// extension_for_everyone.cpp: every extension is offered, whatever its id.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  static const tn_header empty{.size = sizeof(tn_header), .major = 1, .minor = 0};
  tables.plugin.extension = [](const tn_plugin*, const char*) -> const void* { return &empty; };
}
