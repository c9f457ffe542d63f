// SPDX-License-Identifier: Apache-2.0
// timeline.hpp: streams as the calls name them, and how work gets into them.
//
// Invariant: work reaches the engine or a capture through enqueue alone, so the default streams' rules and the rules of
// capturing hold for all of it.
#pragma once

#include "driver.hpp"

namespace fakecuda {

uint64_t next_stream_id();

// The stream of this handle, the default ones included; refuses the call when it is of another context.
Stream& stream_of(Driver& d, Context& context, CUstream handle);

// Takes the work after all that is in the stream, and after `after`. The task, or null when it became a captured node.
TaskPtr enqueue(Driver& d, Stream& stream, Work work, const std::vector<TaskPtr>& after = {});

// What a new task of the stream comes after.
std::vector<TaskPtr> before_next(const Driver& d, const Stream& stream);

// What was enqueued last in each of the context's streams, the default ones included.
std::vector<TaskPtr> last_tasks(const Driver& d, const Context& context);

// Waits for the tasks, and lets no other call in meanwhile, not even one that they wait for.
void wait_shut(Driver& d, Lock& lock, const std::vector<TaskPtr>& tasks);

// The tasks of a graph's nodes, after `after`; the returned one is done when all are. The last of them is in no stream.
TaskPtr submit_graph(Driver& d, const Stream& stream, const std::vector<Node>& nodes,
                     std::vector<TaskPtr> after);

}  // namespace fakecuda
