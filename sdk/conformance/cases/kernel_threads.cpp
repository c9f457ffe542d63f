// SPDX-License-Identifier: Apache-2.0
// kernel_threads.cpp: supports, compile and destroy are any-thread, whoever else asks, compiles or launches meanwhile.
#include "conformance/case.hpp"
#include "conformance/cases/on_threads.hpp"
#include "conformance/ops/sample.hpp"

namespace tenon::conform {

namespace {

// Asks, compiles, launches and destroys `rounds` times, each time another fragment or the one that all threads share.
Status make_kernels(Context& t, const Device& device, const Sample& shared, const Sample& own, uint64_t who,
                    uint64_t rounds) {
  const Stream stream = TN_TRY(device.stream());
  for (uint64_t i = 0; i < rounds; ++i) {
    const Sample& sample = i % 2 == 0 ? shared : own;
    const OneNode node(sample.trial());
    const tn_support said = TN_TRY(supports(t, device, node.fragment()));
    TN_TRY(t.require(said.verdict != TN_SUPPORT_NO, "round ", i,
                     ": supports says no to what it took before: ", said.reason));
    Bench bench = TN_TRY(Bench::make(t, device, sample));
    const uint64_t seed = who * 1000 + i;
    TN_TRY(upload(stream, bench.input.span(), sample.input(seed)));
    TN_TRY(bench.launch(stream));
    const Bytes found = TN_TRY(download(stream, bench.output.span()));
    if (!sample.expect(t, seed, found, words("round ", i, " of thread ", who))) return {};
    TN_TRY(bench.kernel.destroy());
  }
  return {};
}

}  // namespace

CONFORM_CASE(1,
             "threads: fragments are asked about, compiled, launched and destroyed from everywhere at once") {
  const Device& device = *TN_TRY(t.device());
  const Sample shared = TN_TRY(Sample::find(t, device, 200));
  std::vector<Sample> own;
  for (int64_t i = 0; i < thread_count; ++i) own.push_back(TN_TRY(Sample::find(t, device, 100 + i)));
  const uint64_t rounds = t.quick() ? 6 : 60;
  on_threads(t, thread_count, [&](int i) {
    const auto who = static_cast<uint64_t>(i);
    return make_kernels(t, device, shared, own[who], who, rounds);
  });
  return {};
}

}  // namespace tenon::conform
