// SPDX-License-Identifier: Apache-2.0
// strategies.hpp: the ways in which elementwise passes can run on this machine: an engine, and an instruction set.
//
// Invariant: a way that the machine or the build lacks is reported as a skip once, by the case that asks for all of them.
#pragma once

#include "onednn.hpp"
#include "tensors.hpp"

namespace cpu_test {

struct Strategy {
  std::string engine, isa;
  std::string name() const { return engine + " on " + isa; }
};

#if defined(__x86_64__)
inline const std::vector<std::string> instruction_sets = {"sse2", "avx2", "avx512"};
#else
inline const std::vector<std::string> instruction_sets = {"baseline"};
#endif

// A device whose kernels run in this way. The choice holds for what is compiled until the next device is opened.
inline Bench bench_of(const Strategy& strategy) {
  options()["engine"] = strategy.engine;
  options()["isa"] = strategy.isa;
  Bench bench;
  options().clear();
  return bench;
}

inline std::string engine_of(tn_kernel* kernel) { return info(kernel).engine; }

// The engine's text of c = a + b in f32, or why no device opens in this way.
inline std::string engine_of_add(const Strategy& strategy) {
  options()["engine"] = strategy.engine;
  options()["isa"] = strategy.isa;
  tn_device* device = nullptr;
  const Outcome opened =
      outcome_of([&](tn_error* e) { return plugin().device->open(&plugin(), 0, nullptr, &device, e); });
  options().clear();
  if (!opened.ok()) return opened.message();
  const Device owned(device);
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {8}), b = f.input(TN_DTYPE_f32, {8});
  f.node(TN_OP_add, {a, b}, {f.output(TN_DTYPE_f32, {8})});
  return engine_of(compile(owned, f.fragment()));
}

// All ways that there are; what is missing is said.
inline std::vector<Strategy> strategies() {
  std::vector<Strategy> out;
  for (const std::string& isa : instruction_sets) {
    const Strategy interpreter{"interpreter", isa}, jit{"jit", isa};
    if (engine_of_add(interpreter) != "tiles:" + isa) {
      tenon::test::report_skip(isa, "this machine does not have it");
      continue;
    }
    out.push_back(interpreter);
    if (engine_of_add(jit) == "jit:" + isa)
      out.push_back(jit);
    else if (isa != instruction_sets[0])
      tenon::test::report_skip("jit", engine_of_add(jit));
  }
  return out;
}

// Why products of f32 in strips cannot be tested, or nothing.
inline std::string why_no_strips() {
  if (!has_onednn(open_device())) return no_onednn;
  const std::string add = engine_of_add({"jit", "avx512"});
  return add == "jit:avx512" ? "" : add;
}

}  // namespace cpu_test
