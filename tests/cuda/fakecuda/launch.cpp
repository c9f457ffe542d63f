// SPDX-License-Identifier: Apache-2.0
// launch.cpp: launches: their limits, the failures that settings ask for, and what runs.
//
// Invariant: a launch's parameters are copied before the call returns, and its module stays loaded until it is done.
#include "fibers.hpp"
#include "timeline.hpp"

#include <cstdio>
#include <cstring>

using namespace fakecuda;

namespace {

constexpr unsigned most_threads = 1024, most_in_z = 64, most_blocks_yz = 65535;
constexpr unsigned most_shared_bytes = 48 << 10;  // more needs an attribute that no function here has

void check_shape(const Function& function, Dim3 grid, Dim3 block) {
  const bool some = grid.x > 0 && grid.y > 0 && grid.z > 0 && block.x > 0 && block.y > 0 && block.z > 0;
  require(some, CUDA_ERROR_INVALID_VALUE);
  require(grid.x <= 0x7FFFFFFFu && grid.y <= most_blocks_yz && grid.z <= most_blocks_yz,
          CUDA_ERROR_INVALID_VALUE);
  require(block.x <= most_threads && block.y <= most_threads && block.z <= most_in_z,
          CUDA_ERROR_INVALID_VALUE);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  require(threads <= most_threads && threads <= function.entry->max_threads, CUDA_ERROR_INVALID_VALUE);
}

// A driver may load an entry at its first launch, and then waits for all streams, whatever they wait for.
void check_loaded(const Function& function) {
  if (function.loaded) return;
  std::fprintf(stderr, "fakecuda: kernel %s is launched, and was never loaded: call cuFuncLoad ahead\n",
               function.name.c_str());
  require(false, CUDA_ERROR_NOT_SUPPORTED);
}

// What a kernel and all its launches from a graph need, kept together.
struct Launch {
  std::shared_ptr<Function> function;
  std::vector<char> parameters;
  Dim3 grid, block;
  bool faults;  // as the settings ask
};

void run(const Launch& launch, Health& health) {
  if (launch.faults) {
    health.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
    return;
  }
  const std::string failure =
      run_grid(*launch.function->entry, launch.parameters.data(), launch.grid, launch.block);
  if (failure.empty()) return;
  std::fprintf(stderr, "fakecuda: kernel %s: %s\n", launch.function->name.c_str(), failure.c_str());
  health.fail(CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace

CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream_handle, void** parameters, void** extra) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    const auto function = d.functions.get(handle);
    require(function->context == &context, CUDA_ERROR_INVALID_HANDLE);
    check_loaded(*function);
    Stream& stream = stream_of(d, context, stream_handle);
    const Dim3 grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
    check_shape(*function, grid, block);
    require(shared_bytes <= most_shared_bytes, CUDA_ERROR_INVALID_VALUE);
    require(extra == nullptr && parameters != nullptr && parameters[0] != nullptr, CUDA_ERROR_INVALID_VALUE);
    const uint64_t number = ++d.counts.launches;
    require(number != d.settings.launch_refused_at, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    const auto* bytes = static_cast<const char*>(parameters[0]);
    auto launch = std::make_shared<Launch>(Launch{function,
                                                  {bytes, bytes + function->entry->parameter_bytes},
                                                  grid,
                                                  block,
                                                  number == d.settings.launch_error_at});
    enqueue(d, stream,
            {.kind = Kind::kernel, .run = [launch, health = context.health] { run(*launch, *health); }});
  });
}
