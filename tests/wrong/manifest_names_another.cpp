// SPDX-License-Identifier: Apache-2.0
// manifest_names_another.cpp: nothing is wrong with the library; the manifest beside it is that of a newer ABI.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {}
