// SPDX-License-Identifier: Apache-2.0
// world.hpp: the CPU plugin with a device and a stream, a compiled fragment with memory, and rows of kernels.
//
// Peers and limits run on the stream's own worker, where our kernels run: one team of threads serves them all, and all of
// them pay the same way there and back.
// Invariant: whatever goes wrong is thrown; `attempt` makes a row that was left out of it.
#pragma once

#include "limits.hpp"
#include "rows.hpp"

#include <tenon/tenon.hpp>

#include <functional>
#include <stdexcept>

namespace bench {

using tenon::TensorSpec;

template <class T>
T must(tenon::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(std::string(result.message()));
  return std::move(*result);
}
inline void must(const tenon::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// The CPU plugin's first device with `threads` threads.
class World {
 public:
  World();
  // Runs `work` on the stream's worker and waits for it; what it throws is thrown here.
  void on_worker(const std::function<void()>& work);
  // Memory from the device's pool, its pages touched; floats from 0.5 to 1.5.
  void* bytes(size_t count);
  float* floats(size_t count);
  // The same numbers in f32 or bf16.
  void fill(const tenon::Buffer& buffer, tenon::DType dtype);

  tenon::Runtime runtime;
  tenon::Device device;
  tenon::Stream stream;

 private:
  std::vector<tenon::Buffer> owned_;
};

// What a kernel that may be searched for is given, in CompileOptions::budget_ms.
inline constexpr double search_ms = 4'000;

// A kernel and memory for its bindings; an output with an alias has its input's. f32 and bf16 hold 0.5 to 1.5.
class Program {
 public:
  Program(World& world, const tenon::Fragment& fragment, const tenon::CompileOptions& options = {});
  // One launch, waited for.
  void run();
  // Reads, or writes, what another program does.
  void share(size_t binding, const Program& with, size_t theirs) {
    spans_.at(binding) = with.spans_.at(theirs);
    addresses_.at(binding) = with.addresses_.at(theirs);
  }
  template <class T = float>
  T* at(size_t binding) const {
    return static_cast<T*>(addresses_.at(binding));
  }
  // Bytes of all bindings, each once; one that is written over an input is read as well.
  double bytes() const;
  size_t count(size_t binding) const { return kernel_.fragment().bindings().at(binding).elements(); }

 private:
  World& world_;
  tenon::Kernel kernel_;
  std::vector<tn_span> spans_;
  std::vector<void*> addresses_;
  std::vector<tenon::Buffer> owned_;
};

// Three ways measured in turn, and torch's where torch_peer.py has a row of this name. `limit` may be empty, `theirs` too.
struct Contest {
  std::string name, peer{};
  std::function<void()> ours, theirs{}, limit{};
  double bytes = 0;              // Program::bytes of ours
  double limit_scale = 1;        // what one run of `limit` is to be multiplied with
  bool beside_torch = true;      // where torch has such a row
  bool theirs_launches = false;  // programs as ours do, which wait for the worker
  bool limit_launches = false;   // the same of `limit`
};
Row measured(World& world, const Contest& contest);
// Launches of `ours` beside a peer that is called.
Contest contest_of(const std::string& name, const std::string& peer, Program& ours,
                   const std::function<void()>& theirs);
// The row, and once more beside each of torch's ways that there are: the limit is judged without them.
void print_with_rivals(const Row& row);
// The same of a row that is about torch: where there are none, why.
void print_beside_torch(const Row& row);

// Memory traffic as a limit: `moved` bytes at the rate at which `footprint` bytes are read and written in place.
void limit_by_traffic(World& world, Contest& contest, double moved, size_t footprint);
// Passes over memory as a limit, by loops that do nothing else: tensors of `bytes`, of which `read` (0, 1 or 3) are read
// first, and then 1 to 3 beside a result that is stored past the caches.
void limit_by_passes(World& world, Contest& contest, size_t bytes, size_t read, size_t operands);
// Products of so many operations of f32 or bf16 as a limit; no limit where this machine has no loop of that type.
void limit_by_products(Contest& contest, tenon::DType dtype, double flops);

// Throws unless both hold the same numbers, to `tolerance` of 1 + |theirs|.
void check_agreement(const float* ours, const float* theirs, size_t count, double tolerance = 1e-3);
void check_agreement(const uint16_t* ours, const uint16_t* theirs, size_t count, double tolerance = 0.05);

// Prints what `row` says of itself, or that `name` was left out.
void attempt(const std::string& name, const std::function<void()>& row);

}  // namespace bench
