// SPDX-License-Identifier: Apache-2.0
// profile_right.cpp: "tn.profile/1" as it should be: what catches its wrong brothers must let it pass.
#include "wrong_profile.hpp"

WRONG_PLUGIN(tables) { wrong::offer_profile(tables); }
