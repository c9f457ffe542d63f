// SPDX-License-Identifier: Apache-2.0
// run_keeper.hpp: the process that keeps the ranks of one host.
//
// Invariant: when it ends, all that it started has ended. It ends when the launcher says so or is no longer there: when its
// standard input closes, or stays silent for longer than the job allows.
#pragma once

namespace tenon::tool::run {

// `tenon run --keeper`: takes a job from standard input, and reports on standard output. Returns the exit code.
// [main thread; blocks]
int keep();

}  // namespace tenon::tool::run
