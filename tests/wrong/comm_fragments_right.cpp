// SPDX-License-Identifier: Apache-2.0
// comm_fragments_right.cpp: collectives in fragments as they should be: what catches the wrong ones must let it pass.
#include "comm_in_fragments.hpp"

WRONG_COMM(tables) { wrong::put_collectives_in_fragments(tables); }
