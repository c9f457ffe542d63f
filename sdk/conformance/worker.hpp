// SPDX-License-Identifier: Apache-2.0
// worker.hpp: the side of a run that has the plugin inside it.
//
// Invariant: a worker says "begin" before a case can do harm and "end" after the case's handles are gone, so whatever
// kills the process has a name.
#pragma once

namespace tenon::conform {

// Serves one request over `descriptor` and returns the exit status. [main thread; blocks; cannot fail]
int serve(int descriptor);

}  // namespace tenon::conform
