// SPDX-License-Identifier: Apache-2.0
// claims_whole_graphs.cpp: the plugin declares WHOLE_GRAPH, and takes single ops.
#include "wrong.hpp"

WRONG_PLUGIN(tables) { tables.plugin.features |= TN_FEATURE_WHOLE_GRAPH; }
