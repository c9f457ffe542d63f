// SPDX-License-Identifier: Apache-2.0
// turns.hpp: contestants of one row, asked in turn.
//
// Invariant: a row stands for each rival, with its figures or with why it has none; all have the same runs of ours.
#pragma once

#include "../row.hpp"
#include "contestant.hpp"

#include <span>

namespace bench {

// Fills and prints `row`, whose name and limit are given, once for each rival. `floor` gives the limit, where there is one;
// `per_us` turns a contestant's microseconds into the row's unit. [one thread; blocks]
void take_turns(Row row, Contestant& ours, std::span<Contestant* const> rivals, const Work& work,
                Contestant* floor = nullptr, double per_us = 1);

}  // namespace bench
