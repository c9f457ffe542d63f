// SPDX-License-Identifier: Apache-2.0
// panel.hpp: one step of one rank, as a part of a picture that report.py draws.
#pragma once

#include "crew.hpp"

#include <string>
#include <vector>

namespace bench {

// Has a crew with these options take a few steps with a timeline, apart from every contest, and prints the last of them as `title` of
// the picture `picture`: what ran when on each stream of rank 0. Says why where that cannot be. [one thread; blocks]
void panel(const std::string& picture, const std::string& title, const Course& course,
           const tenon::test::Networks* networks, std::vector<std::string> options);

}  // namespace bench
