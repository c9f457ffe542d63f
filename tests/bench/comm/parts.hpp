// SPDX-License-Identifier: Apache-2.0
// parts.hpp: what the suite measures besides one host that is well.
#pragma once

namespace bench {

// Two hosts of two ranks, which are two networks of this machine with a wire of 1 and of 10 Gbit/s between them.
void two_hosts();

// From the end of a rank, or from its standstill, to the error on all others.
void faults();
// The rank that the words name: works until it is told of another's end, and says when that was. The status to exit with.
int live_until_told(char** words);

}  // namespace bench
