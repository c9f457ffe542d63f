// SPDX-License-Identifier: Apache-2.0
// claims_synchronous.cpp: the plugin declares SYNCHRONOUS, and its work runs on threads.
#include "wrong.hpp"

WRONG_PLUGIN(tables) { tables.plugin.features |= TN_FEATURE_SYNCHRONOUS; }
