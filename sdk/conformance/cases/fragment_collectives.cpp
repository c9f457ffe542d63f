// SPDX-License-Identifier: Apache-2.0
// fragment_collectives.cpp: level 3, collectives that are nodes of a fragment (feature FRAGMENT_COLLECTIVES).
//
// Every rank compiles the fragment with its own communicator and launches it; numbers are whole, so results are exact in
// whatever order ranks are added. Invariant: a plugin that declares the bit has to take such a fragment.
#include "conformance/case.hpp"
#include "conformance/comm/ranks.hpp"
#include "conformance/ops/kernel.hpp"
#include "conformance/ops/workspace.hpp"

#include <cstring>

namespace tenon::conform {

namespace {

constexpr int64_t summed = 1001;  // elements

// z = (Σ over ranks of x·x) − x, with the collective in the middle.
struct SumAmongNodes {
  author::FragmentBuilder builder{"all_reduce among nodes"};
  tn_fragment fragment{};

  SumAmongNodes() {
    const std::vector<int64_t> dims = {summed};
    const uint32_t x = builder.input(TN_DTYPE_f32, dims), square = builder.tensor(TN_DTYPE_f32, dims),
                   sum = builder.tensor(TN_DTYPE_f32, dims), z = builder.output(TN_DTYPE_f32, dims);
    builder.node(TN_OP_mul, {x, x}, {square});
    builder.node(TN_OP_all_reduce, {square}, {sum}).integer("comm", 0).string("reduce", "sum");
    builder.node(TN_OP_sub, {sum, x}, {z});
    fragment = builder.fragment();
    set_identity(fragment);
  }
};

Result<Kernel> compile_with(Context& t, const Device& device, const tn_fragment& fragment, tn_comm* comm) {
  tn_compile_options options{};
  options.size = sizeof options;
  options.workspace_limit = TN_COMPILE_NO_LIMIT;
  options.comm_count = 1;
  options.comms = &comm;
  tn_kernel* made = nullptr;
  TN_TRY(t.call("kernel.compile with a communicator", [&](tn_error* e) {
    return device.api().kernel.compile(device.handle(), &fragment, &options, &made, e);
  }));
  TN_TRY(t.require(made != nullptr, "kernel.compile said TN_OK and gave no kernel"));
  return Kernel(t, device.api(), made);
}

float brought(uint32_t rank, int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 19 - 9); }

Status hold_sums(const Rank& rank, std::span<const std::byte> found) {
  for (int64_t i = 0; i < summed; ++i) {
    float wanted = -brought(rank.rank, i), seen = 0;
    for (uint32_t other = 0; other < rank.size; ++other) wanted += brought(other, i) * brought(other, i);
    std::memcpy(&seen, found.data() + static_cast<size_t>(i) * sizeof seen, sizeof seen);
    TN_TRY(rank.t.require(seen == wanted, "element ", i, " is ", seen, " and must be ", wanted));
  }
  return {};
}

Status launch_sums(Rank& rank, const Kernel& kernel, const Memory& x, const Memory& z) {
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Workspace workspace = TN_TRY(Workspace::make(rank.device, rank.stream, info));
  const tn_span bindings[] = {x.span(), z.span()};
  TN_TRY(kernel.launch(rank.stream, bindings, workspace.span()));
  TN_TRY(rank.stream.finish());
  return workspace.check(rank.t, rank.stream);
}

Status sum_on(Rank& rank) {
  SumAmongNodes sum;
  const tn_support said = TN_TRY(supports(rank.t, rank.device, sum.fragment));
  TN_TRY(rank.agree(rank.t.require(
      said.verdict != TN_SUPPORT_NO,
      "the plugin declares FRAGMENT_COLLECTIVES, and refuses an all_reduce among ", "nodes: ", said.reason)));
  auto made = compile_with(rank.t, rank.device, sum.fragment, rank.comm.handle());
  TN_TRY(rank.agree(made.ok() ? Status()
                              : Status(TN_INTERNAL, words("kernel.supports says yes: ", made.message()))));
  const Kernel kernel = *std::move(made);
  Bytes sent(static_cast<size_t>(summed) * sizeof(float));
  for (int64_t i = 0; i < summed; ++i) {
    const float one = brought(rank.rank, i);
    std::memcpy(sent.data() + static_cast<size_t>(i) * sizeof one, &one, sizeof one);
  }
  const Memory x = TN_TRY(rank.device.alloc(sent.size()))
  , z = TN_TRY(rank.device.alloc(sent.size()));
  TN_TRY(upload(rank.stream, x.span(), sent));
  for (int round = 0; round < 3; ++round) {
    TN_TRY(rank.agree(launch_sums(rank, kernel, x, z)));
    const Bytes found = TN_TRY(download(rank.stream, z.span()));
    TN_TRY(rank.agree(hold_sums(rank, found)));
  }
  return {};
}

}  // namespace

CONFORM_CASE(3, "feature: FRAGMENT_COLLECTIVES computes an all_reduce among nodes", .deadlines = 2) {
  const Tables& api = *TN_TRY(t.tables());
  if ((api.copy.features & TN_FEATURE_FRAGMENT_COLLECTIVES) == 0)
    return t.require(true);  // "refuse: a collective where fragments have none" says what then holds
  TN_TRY(t.require(api.kernel.compile != nullptr && api.comm.create != nullptr,
                   "the plugin declares FRAGMENT_COLLECTIVES, and lacks kernels or communicators"));
  for (const uint32_t size : {1u, 2u, 3u}) TN_TRY(as_threads(t, size, sum_on));
  return {};
}

}  // namespace tenon::conform
