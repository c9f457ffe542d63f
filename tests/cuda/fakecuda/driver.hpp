// SPDX-License-Identifier: Apache-2.0
// driver.hpp: the one state behind all calls, and the gate that each call goes through.
//
// Invariant: a call holds the driver's mutex, except while a task's body runs or the call waits for a task; what a call
// refuses it refuses before it has changed anything.
#pragma once

#include "engine.hpp"
#include "memory.hpp"
#include "objects.hpp"

#include <condition_variable>
#include <new>
#include <string>

namespace fakecuda {

// How many calls of a kind there were, for failures injected at the N-th.
struct Counts {
  uint64_t allocations = 0, launches = 0, waits = 0, values = 0;
};

struct Driver {
  std::mutex mutex{};
  Settings settings{};
  Engine engine{mutex};
  Memory memory{};
  Counts counts{};
  bool initialised = false;
  bool shut = false;  // a call keeps others out, though it waits for a stream
  std::condition_variable let_in{};
  std::vector<std::shared_ptr<Context>> primary{};  // by device; null: not retained

  Handles<CUcontext, Context> contexts{1};
  Handles<CUstream, Stream> streams{2};
  Handles<CUevent, Event> events{3};
  Handles<CUmodule, Module> modules{4};
  Handles<CUfunction, Function> functions{5};
  Handles<CUgraph, Graph> graphs{6};
  Handles<CUgraphExec, GraphExec> execs{7};
  std::vector<std::shared_ptr<Capture>> captures{};  // under way
};

// Never destroyed: workers and late callers outlive static destructors.
Driver& driver();

// Takes up settings, while no context is alive; on a failure gives the reason.
CUresult configure(Driver& d, Lock& lock, const char* text, std::string& error);
// Reads FAKECUDA once. Its fault is told on stderr, once, and is every later cuInit's failure.
CUresult initialise();

// Of the most urgent stream; 0 is of the least.
inline constexpr int greatest_priority = -5;

// Refuses the call with what has befallen the context.
inline void require_healthy(const Health& health) {
  require(health.fault == 0, static_cast<CUresult>(health.fault.load()));
}

// The context current on this thread; refuses the call when there is none, or when it has faulted or ended.
Context& current_context(Driver& d);
// The same, or null.
CUcontext current_handle();

template <class Body>
CUresult call(Body&& body) noexcept {
  if (inside_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  Driver& d = driver();
  try {
    Lock lock(d.mutex);
    require(d.initialised, CUDA_ERROR_NOT_INITIALIZED);
    d.let_in.wait(lock, [&d] { return !d.shut; });
    d.engine.touch();
    body(d, lock);
    return CUDA_SUCCESS;
  } catch (const Refused& refused) {
    return refused.code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

// A call that needs a current context.
template <class Body>
CUresult call_in_context(Body&& body) noexcept {
  return call([&](Driver& d, Lock& lock) { body(d, lock, current_context(d)); });
}

// An answer's place, refused when it is null.
template <class T>
T& answer(T* place) {
  require(place != nullptr, CUDA_ERROR_INVALID_VALUE);
  return *place;
}

}  // namespace fakecuda
