// SPDX-License-Identifier: Apache-2.0
// perf_kernels.cpp: a few kernels, each held against what the device's memory or arithmetic reached in the same run.
#include "conformance/digest.hpp"
#include "conformance/perf_rig.hpp"

#include <tenon/author/fragment_builder.hpp>

#include <algorithm>
#include <cstring>
#include <memory>

namespace tenon::conform {

namespace {

using author::FragmentBuilder;
using Against = Figure::Against;

// A compiled fragment with everything that its launches need; ended in the opposite order.
class Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const Rig& rig, const tn_fragment& fragment,
                                              const std::vector<uint64_t>& bytes);
  Kernel(const Rig& rig, tn_kernel* handle) : rig_(rig), handle_(handle) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() {
    static_cast<void>(rig_.stream.finish());
    static_cast<void>(rig_.device.api().kernel.destroy(handle_, nullptr));
  }
  Status launch() const {
    return raw("kernel.launch", [&](tn_error* e) {
      return rig_.device.api().kernel.launch(handle_, rig_.stream.handle(), spans_.data(),
                                             static_cast<uint32_t>(spans_.size()), &workspace_span_, e);
    });
  }

 private:
  Status bind(const std::vector<uint64_t>& bytes);

  const Rig& rig_;
  tn_kernel* handle_;
  std::vector<Memory> memories_{};
  std::vector<tn_span> spans_{};
  tn_span workspace_span_{};
};

Status refusal(const tn_support& support) {
  return Status(TN_UNSUPPORTED, std::string(support.reason, strnlen(support.reason, sizeof support.reason)));
}

Result<std::unique_ptr<Kernel>> Kernel::make(const Rig& rig, const tn_fragment& fragment,
                                             const std::vector<uint64_t>& bytes) {
  const tn_kernel_api& api = rig.device.api().kernel;
  tn_support support{};
  support.size = sizeof support;
  TN_TRY(raw("kernel.supports",
             [&](tn_error* e) { return api.supports(rig.device.handle(), &fragment, &support, e); }));
  if (support.verdict == TN_SUPPORT_NO) return refusal(support);
  tn_compile_options options{};
  options.size = sizeof options;
  options.workspace_limit = TN_COMPILE_NO_LIMIT;
  tn_kernel* handle = nullptr;
  TN_TRY(raw("kernel.compile",
             [&](tn_error* e) { return api.compile(rig.device.handle(), &fragment, &options, &handle, e); }));
  auto out = std::make_unique<Kernel>(rig, handle);
  TN_TRY(out->bind(bytes));
  return out;
}

// Binds memory full of small numbers, so that no kernel meets denormals or NaN by accident.
Status Kernel::bind(const std::vector<uint64_t>& bytes) {
  constexpr uint64_t quarter = 0x3e800000;  // 0.25f
  for (const uint64_t size : bytes) {
    memories_.push_back(TN_TRY(rig_.device.alloc(size)));
    TN_TRY(rig_.stream.fill(memories_.back().span(), quarter, 4));
    spans_.push_back(memories_.back().span());
  }
  tn_kernel_info info{};
  info.size = sizeof info;
  TN_TRY(raw("kernel.info", [&](tn_error* e) { return rig_.device.api().kernel.info(handle_, &info, e); }));
  if (info.workspace_bytes == 0) return {};
  memories_.push_back(
      TN_TRY(rig_.device.alloc(info.workspace_bytes, TN_MEMORY_DEVICE, info.workspace_alignment)));
  workspace_span_ = memories_.back().span();
  return {};
}

// One kernel to measure: its fragment is built of f32 tensors, inputs before outputs.
struct Throughput {
  const char* name;
  std::vector<std::vector<int64_t>> inputs;
  std::vector<int64_t> output;
  std::function<void(FragmentBuilder&, const std::vector<uint32_t>&, uint32_t)> write;
  double flops = 0;  // 0: it is held against memory traffic
};

double bytes_of(const std::vector<int64_t>& dims) {
  double out = 4;
  for (const int64_t dim : dims) out *= static_cast<double>(dim);
  return out;
}

double traffic(const Throughput& plan) {
  double out = bytes_of(plan.output);
  for (const auto& dims : plan.inputs) out += bytes_of(dims);
  return out;
}

// Equal identities mean equal fragments, and a plugin may believe it.
void identify(tn_fragment& fragment, const Throughput& plan) {
  std::string text = plan.name;
  for (const auto& dims : plan.inputs) {
    for (const int64_t dim : dims) text += words(" ", dim);
  }
  const std::string hex = digest({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
  std::memcpy(fragment.identity, hex.data(), sizeof fragment.identity);
}

Result<std::unique_ptr<Kernel>> compiled(const Rig& rig, const Throughput& plan) {
  FragmentBuilder fragment(plan.name);
  std::vector<uint32_t> inputs;
  std::vector<uint64_t> bytes;
  for (const auto& dims : plan.inputs) {
    inputs.push_back(fragment.input(TN_DTYPE_f32, dims));
    bytes.push_back(static_cast<uint64_t>(bytes_of(dims)));
  }
  bytes.push_back(static_cast<uint64_t>(bytes_of(plan.output)));
  plan.write(fragment, inputs, fragment.output(TN_DTYPE_f32, plan.output));
  tn_fragment whole = fragment.fragment();
  identify(whole, plan);
  return Kernel::make(rig, whole, bytes);
}

void measure_throughput(const Rig& rig, const Throughput& plan) {
  Figure figure{.group = "kernel", .name = plan.name, .unit = "GB/s", .against = Against::memory};
  if (plan.flops > 0) {
    figure.unit = "GFLOP/s";
    figure.against = Against::arithmetic;
    figure.flops_per_byte = plan.flops / traffic(plan);
  }
  const auto kernel = compiled(rig, plan);
  if (!kernel.ok()) return tell_trouble(rig, figure, Status(kernel.error()));
  tell_rate(rig, figure, plan.flops > 0 ? plan.flops : traffic(plan),
            enqueued(rig, [&] { return (*kernel)->launch(); }));
}

Throughput unary(const char* name, uint32_t op, const std::vector<int64_t>& dims) {
  return {
      .name = name, .inputs = {dims}, .output = dims, .write = [op](auto& f, const auto& in, uint32_t out) {
        f.node(op, in, {out});
      }};
}

Throughput matmul(const char* name, int64_t m, int64_t k, int64_t n) {
  return {.name = name,
          .inputs = {{m, k}, {k, n}},
          .output = {m, n},
          .write =
              [](auto& f, const auto& in, uint32_t out) {
                f.node(TN_OP_matmul, in, {out}).integer("transpose_a", 0).integer("transpose_b", 0);
              },
          .flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n)};
}

void measure_launch(const Rig& rig) {
  Throughput tiny = unary("launch of relu over 1 element", TN_OP_relu, {1});
  const Figure call{.group = "call", .name = "kernel.launch", .unit = "ns"};
  const Figure trip{.group = "latency", .name = "launch of a kernel until it is seen finished", .unit = "µs"};
  const auto kernel = compiled(rig, tiny);
  if (!kernel.ok()) return tell_trouble(rig, trip, Status(kernel.error()));
  tell_time(rig, call, 1, [&](uint64_t n) -> Result<double> {
    double out = 0;
    for (uint64_t done = 0; done < n; done += 64) {
      const double start = now_ns();
      for (uint64_t i = done; i < std::min<uint64_t>(n, done + 64); ++i) TN_TRY((*kernel)->launch());
      out += now_ns() - start;
      TN_TRY(rig.stream.finish());
    }
    return out;
  });
  tell_time(rig, trip, 1000, [&](uint64_t n) -> Result<double> {
    const double start = now_ns();
    for (uint64_t i = 0; i < n; ++i) {
      TN_TRY((*kernel)->launch());
      TN_TRY(rig.stream.finish());
    }
    return now_ns() - start;
  });
}

std::vector<Throughput> plans(const Rig& rig) {
  const auto columns = int64_t{1024};
  const auto rows = std::max<int64_t>(static_cast<int64_t>(rig.large() / 4) / columns, 1);
  const std::vector<int64_t> large{rows, columns};
  const int64_t edge = rig.quick ? 512 : 1024;
  std::vector<Throughput> out{unary("relu", TN_OP_relu, large)};
  out.push_back({.name = "add",
                 .inputs = {large, large},
                 .output = large,
                 .write = [](auto& f, const auto& in, uint32_t o) { f.node(TN_OP_add, in, {o}); }});
  out.push_back({.name = "sum over rows",
                 .inputs = {large},
                 .output = {rows},
                 .write = [](auto& f, const auto& in, uint32_t o) {
                   f.node(TN_OP_sum, in, {o}).integers("axes", {1}).integer("keepdims", 0);
                 }});
  out.push_back({.name = "softmax",
                 .inputs = {large},
                 .output = large,
                 .write = [](auto& f, const auto& in, uint32_t o) {
                   f.node(TN_OP_softmax, in, {o}).integer("axis", -1);
                 }});
  out.push_back(matmul(rig.quick ? "matmul 512 × 512 × 512" : "matmul 1024 × 1024 × 1024", edge, edge, edge));
  out.push_back(matmul("matmul 64 × 1024 × 1024", 64, 1024, 1024));
  out.push_back(matmul("matmul 1 × 1024 × 1024", 1, 1024, 1024));
  return out;
}

}  // namespace

void measure_kernels(const Rig& rig) {
  if (rig.device.api().copy.kernel == nullptr) {
    const Figure none{.group = "kernel", .name = "kernels"};
    return tell_trouble(rig, none, Status(TN_UNSUPPORTED, "the plugin runs no kernels"));
  }
  measure_launch(rig);
  for (const Throughput& plan : plans(rig)) measure_throughput(rig, plan);
}

}  // namespace tenon::conform
