// SPDX-License-Identifier: Apache-2.0
// objects.hpp: what a context owns: streams, events, modules; and the graphs that captures make.
//
// Invariant: an object names its context, and calls that mix contexts are refused where the real driver's would be.
#pragma once

#include "handles.hpp"
#include "launch.hpp"
#include "task.hpp"

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fakecuda {

struct Context;
struct Capture;

struct Stream {
  uint64_t id = 0;
  Context* context = nullptr;
  bool legacy = false;    // the default stream: orders itself with every blocking one
  bool blocking = false;  // … such as this
  int priority = 0;       // kept to be told; work is run in any order
  bool begun = false;     // it has carried a kernel, a copy or a fill, itself or in a graph
  TaskPtr last{};
  std::shared_ptr<Capture> capture{};
  std::set<size_t> tail{};  // the nodes of the capture that the next one comes after
};

struct Event {
  Context* context = nullptr;
  bool timed = false;
  TaskPtr record{};                    // the most recent; none: the event counts as complete
  std::shared_ptr<Capture> capture{};  // where it was last recorded, when that was in a capture
  std::set<size_t> nodes{};
};

// One operation of a graph, and the operations it comes after.
struct Node {
  Work work{};
  std::set<size_t> after{};
};

struct Graph {
  std::vector<Node> nodes{};
};

struct GraphExec {
  Context* context = nullptr;
  std::vector<Node> nodes{};
  TaskPtr last{};  // launches of one executable graph come one after the other
};

// A capture under way. It ends where it began: with its origin.
struct Capture {
  Context* context = nullptr;
  Stream* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread{};
  Graph graph{};
  std::set<Stream*> streams{};
  bool invalid = false;
  bool ended = false;
};

struct Module {
  Context* context = nullptr;
  void* library = nullptr;  // from dlopen
  int file = -1;            // its image; open for as long as it is loaded
  bool built_in = false;    // the twins inside this library
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();
};

struct Function {
  Context* context = nullptr;
  std::shared_ptr<Module> module{};
  const Entry* entry = nullptr;
  std::string name{};
  bool loaded = false;  // by cuFuncLoad
};

// A device's primary context, from its first retain to its last release.
struct Context {
  uint64_t id = 0;
  CUcontext handle = nullptr;
  int device = 0;
  uint64_t retained = 0;
  std::shared_ptr<Health> health = std::make_shared<Health>();
  Stream legacy{};
  std::vector<TaskPtr> waits{};  // for words: those that may not be done
  std::map<std::thread::id, std::unique_ptr<Stream>> per_thread{};
};

}  // namespace fakecuda
