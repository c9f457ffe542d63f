// SPDX-License-Identifier: Apache-2.0
// The benchmark of the CUDA plugin: copies and additions of 1 GiB, what a launch and a record cost the host, what
// steps are made of (workloads.hpp), and a whole step.
//
//   bench_cuda [BYTES]     the size of one array; default 1 GiB. Workloads are as many times smaller as this is.
//
// Prediction, before any run: d = a + b + c moves 4 bytes for each it writes, a copy moves 2. Both are bound by memory, so
// the addition takes as long as a copy of twice the bytes: that copy, by the bare driver in the same run, is the limit.
// Invariant: without a device every row is left out by name, and says why.
#include "../row.hpp"
#include "../train/contest.hpp"
#include "measure.hpp"
#include "workloads.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace bench {
namespace {

constexpr uint64_t launches = 200;  // between two syncs, so that the driver's queue is never full

tenon::Fragment sum_of_three(uint64_t count) {
  const tenon::TensorSpec array{tenon::f32, {static_cast<int64_t>(count)}};
  tenon::FragmentBuilder f;
  const auto a = f.input(array), b = f.input(array), c = f.input(array);
  f.output(f.node(tenon::Op::add, {f.node(tenon::Op::add, {a, b}, array), c}, array));
  return *f.build();
}

void copy_row(Bench& b) {
  const tenon::Buffer from = *b.device.allocate(b.stream, b.bytes),
                      to = *b.device.allocate(b.stream, b.bytes);
  Row row{.name = "copy", .peer = "bare driver", .unit = "GB/s", .median = true};
  const double moved = 2.0 * static_cast<double>(b.bytes);
  for (int run = 0; run < runs; ++run) {
    row.ours.push_back(moved / device_ns(b.stream, [&] { static_cast<void>(b.stream.copy(to, from)); }));
    row.theirs.push_back(moved / b.bare.copy_ns(*to.address(), *from.address(), b.bytes));
  }
  print(row);
}

// One row for each way of torch's, each beside runs of ours.
void add3_rows(Bench& b, Peer& torch) {
  const tenon::Kernel kernel = *b.device.compile(sum_of_three(b.bytes / 4));
  const tenon::Buffer inputs[] = {*b.device.allocate(b.stream, 2 * b.bytes),
                                  *b.device.allocate(b.stream, b.bytes)};
  const tenon::Buffer out = *b.device.allocate(b.stream, 2 * b.bytes);
  const tn_span bindings[] = {*inputs[0].slice(0, b.bytes), *inputs[0].slice(b.bytes, b.bytes), inputs[1],
                              *out.slice(0, b.bytes)};
  for (const char* how : {"eager", "compile"}) {
    Row row{.name = "add3", .peer = std::string("torch ") + how, .unit = "us", .median = true};
    double floor = 0;
    for (int run = 0; run < runs; ++run) {
      row.ours.push_back(device_ns(b.stream, [&] { static_cast<void>(kernel.launch(b.stream, bindings)); }) /
                         1e3);
      floor += b.bare.copy_ns(*out.address(), *inputs[0].address(), 2 * b.bytes) / 1e3 / runs;
      if (torch.why().empty()) row.theirs.push_back(torch.figure(std::string("add3 ") + how) / 1e3);
    }
    row.limit = floor;
    row.why_no_peer = torch.why();
    for (const double figure : row.theirs)
      if (figure < 0) row.why_no_peer = "torch failed";
    if (!row.why_no_peer.empty()) row.theirs.clear();
    print(row);
  }
}

// What the host spends in a call, with the device keeping up.
template <class Ours, class Theirs>
void call_row(const char* name, const char* peer, Bench& b, Ours&& ours, Theirs&& theirs) {
  Row row{.name = name, .peer = peer};
  for (int run = -1; run < 4 * runs; ++run) {
    const double mine = time_of(launches, ours);
    static_cast<void>(b.stream.sync());
    const double bare = time_of(launches, theirs);
    b.bare.sync();
    if (run < 0) continue;  // to warm up
    row.ours.push_back(mine);
    row.theirs.push_back(bare);
  }
  print(row);
}

void call_rows(Bench& b) {
  const tenon::Kernel kernel = *b.device.compile(sum_of_three(32));
  const tenon::Buffer memory = *b.device.allocate(b.stream, 1024);
  const tn_span bindings[] = {*memory.slice(0, 128), *memory.slice(128, 128), *memory.slice(256, 128),
                              *memory.slice(512, 128)};
  call_row(
      "launch", "cuLaunchKernel", b, [&] { static_cast<void>(kernel.launch(b.stream, bindings)); },
      [&] { b.bare.launch(); });
  call_row(
      "launch_and_record", "cuLaunchKernel and cuEventRecord", b,
      [&] {
        static_cast<void>(kernel.launch(b.stream, bindings));
        static_cast<void>(b.stream.record_value());
      },
      [&] {
        b.bare.launch();
        b.bare.record();
      });
}

// A whole step of ResNet-50 in bf16, channels last, with its batch on the device.
void training_row(int64_t part) {
  if (part != 1) return left_out("resnet50_step", "steps are of full size only: call it without a size");
  const Task task{.model = "resnet50", .batch = 256, .device = "cuda"};
  std::vector<Rider> riders;
  riders.push_back({"ours", Racer::ours(task, {"amp=true", "amp_level=O2", "layout=nhwc",
                                               "cudnn_exhaustive_search=true"})});
  riders.push_back({"torch compile", Racer::torch(task, {"compile", "nhwc", "bf16"})});
  contest("resnet50_step", std::move(riders));
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  using namespace bench;
  const uint64_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) / 64 * 64 : uint64_t{1} << 30;
  const auto part =
      static_cast<int64_t>(std::max<uint64_t>((uint64_t{1} << 30) / std::max<uint64_t>(bytes, 1), 1));
  const auto besides_bare = [](const std::string& why) {
    for (const char* row : {"copy", "add3", "launch", "launch_and_record"}) left_out(row, why);
  };
  const auto all_left_out = [&](const std::string& why) {
    besides_bare(why);
    left_out("replay", why);
    left_out("resnet50_step", why);
    for (const Workload& work : workloads(part))
      if (!work.torch.empty()) left_out(work.name, why);
    return 0;
  };
  const char* const folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
  auto runtime = tenon::Runtime::open({.search_path = {folder != nullptr ? folder : BENCH_PLUGIN_DIR}});
  if (!runtime.ok()) return all_left_out(std::string(runtime.message()));
  auto device = runtime->device("cuda:0");
  if (!device.ok()) return all_left_out(std::string(device.message()));
  std::string why;
  const Bare bare(why);
  {
    Bench b{.device = *device, .stream = *device->stream(), .bare = bare, .bytes = bytes};
    // A program that was built elsewhere is run from the root of the tree.
    const std::string script = access(BENCH_PEER, R_OK) == 0 ? BENCH_PEER : "tests/bench/cuda/torch_peer.py";
    Peer torch(Peer::python(script, {std::to_string(bytes), std::to_string(part)}));
    if (torch.why().empty()) note(torch.about());
    if (bare.usable()) {
      copy_row(b);
      add3_rows(b, torch);
      call_rows(b);
    } else {
      besides_bare("the bare driver cannot be compared with: " + why);
    }
    replay_row(b, torch);
    workload_rows(b, torch, part);
  }
  static_cast<void>(device->trim());  // the step has processes of its own
  training_row(part);
}
