// SPDX-License-Identifier: Apache-2.0
// graph.cpp: graphs that a capture has made, and their launches.
//
// Invariant: a launch's nodes come after the stream's earlier work and after the same graph's earlier launch, the stream's
// later work after all of them; among themselves they keep only the order that the capture declared.
#include "timeline.hpp"

#include <algorithm>

namespace fakecuda {

TaskPtr submit_graph(Driver& d, const Stream& stream, const std::vector<Node>& nodes,
                     std::vector<TaskPtr> after) {
  std::vector<TaskPtr> tasks;
  const auto submit = [&](Work work, const std::vector<TaskPtr>& earlier) {
    auto task = std::make_shared<Task>();
    task->stream = next_stream_id();  // a node is in nobody's order
    task->work = std::move(work);
    task->health = stream.context->health;
    d.engine.submit(task, earlier);
    return task;
  };
  for (const Node& node : nodes) {
    std::vector<TaskPtr> earlier = after;
    for (const size_t index : node.after) earlier.push_back(tasks[index]);
    tasks.push_back(submit(node.work, earlier));
  }
  after.insert(after.end(), tasks.begin(), tasks.end());
  return submit({}, after);
}

namespace {

// A graph launched in a stream that is being captured becomes part of the capture.
void copy_nodes(Stream& stream, const std::vector<Node>& nodes) {
  Capture& capture = *stream.capture;
  require(!capture.invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  const size_t first = capture.graph.nodes.size();
  std::set<size_t> all = stream.tail;
  for (const Node& node : nodes) {
    Node copy{node.work, stream.tail};
    for (const size_t index : node.after) copy.after.insert(first + index);
    all.insert(capture.graph.nodes.size());
    capture.graph.nodes.push_back(std::move(copy));
  }
  stream.tail = std::move(all);
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    answer(out);
    auto exec = std::make_shared<GraphExec>();
    exec->context = &context;
    exec->nodes = d.graphs.get(handle)->nodes;
    *out = d.execs.add(std::move(exec));
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    GraphExec& exec = *d.execs.get(handle);
    require(exec.context == &context, CUDA_ERROR_INVALID_HANDLE);
    Stream& stream = stream_of(d, context, stream_handle);
    if (stream.capture != nullptr) return copy_nodes(stream, exec.nodes);
    const auto has_begun = [](const Node& node) { return begins(node.work.kind); };
    if (std::ranges::any_of(exec.nodes, has_begun)) stream.begun = true;
    auto after = before_next(d, stream);
    after.push_back(exec.last);
    exec.last = submit_graph(d, stream, exec.nodes, std::move(after));
    enqueue(d, stream, {.kind = Kind::join}, {exec.last});
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return call([&](Driver& d, Lock&) {
    d.graphs.get(handle);
    d.graphs.remove(handle);
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return call([&](Driver& d, Lock&) {
    d.execs.get(handle);
    d.execs.remove(handle);
  });
}
