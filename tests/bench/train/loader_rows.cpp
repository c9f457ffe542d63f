// SPDX-License-Identifier: Apache-2.0
// loader_rows.cpp: "loader/photos" prepares photos as fast as it can, beside torch's DataLoader; "loader/slow_read" trains on a
// store that lets each read wait, beside a loop that reads when it needs to.
//
// Prediction: photos are bound by memory, 5 bytes read and written for each number that comes out; the store lets a sample
// wait 2 ms, so 16 samples by 4 workers take 8 ms, and a step takes as long as its computing where that takes longer.
// Invariant: both sides of a row get as many samples of the same kind, and every batch is there when the time is taken.
#include "loader_rows.hpp"

#include "../peer.hpp"
#include "../row.hpp"

#include <tenon/tenon.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace bench {
namespace {

using namespace tenon;

constexpr int64_t side = 256, part = 224, photo_batch = 32;
constexpr uint64_t photos = 256, photo_steps = 16, photo_rounds = 10;
constexpr auto store_waits = std::chrono::milliseconds(2);
constexpr uint64_t slow_batch = 16, slow_steps = 20, slow_rounds = 7, wide = 512;

Result<Runtime> open_runtime() {
  const char* const folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
  RuntimeOptions options{.use_environment = false, .use_install_path = false, .probe = Probe::off};
  options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
  options.options["cpu.threads"] = "2";
  return Runtime::open(std::move(options));
}

Dataset photo_album() {
  std::vector<std::byte> bytes(photos * 3 * side * side);
  uint32_t state = 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  return *memory_dataset({{"image", {u8, {3, side, side}}, std::move(bytes)}});
}

// Takes `steps` batches, one after the other, and waits for the last.
Result<double> take(Loader& loader, Stream& stream, uint64_t steps) {
  const double start = now_ns();
  for (uint64_t i = 0; i < steps; ++i) {
    const Batch batch = TN_TRY(loader.next(stream));
    TN_TRY(stream.sync());
  }
  return (now_ns() - start) / 1e6 / static_cast<double>(steps);
}

// What copying as many bytes takes as a batch reads and writes.
double photo_floor_ms() {
  constexpr size_t count = static_cast<size_t>(photo_batch * 3 * part * part);
  const std::vector<char> from(count * 5 / 2, 1);
  std::vector<char> to(from.size());
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    best = std::min(best, time_of(1, [&] { std::memcpy(to.data(), from.data(), from.size()); }) / 1e6);
    if (to[static_cast<size_t>(run)] != 1) std::abort();
  }
  return best;
}

Status photo_row(Device& device) {
  Stream stream = TN_TRY(device.stream());
  const ImageOptions image{.height = part,
                           .width = part,
                           .random_crop = true,
                           .flip = 0.5,
                           .mean = {0.485, 0.456, 0.406},
                           .deviation = {0.229, 0.224, 0.225}};
  Loader loader = TN_TRY(Loader::open(device, photo_album(), {.batch = photo_batch, .image = image}));
  Peer torch(Peer::python(TRAIN_PEER, {"loader", std::to_string(photo_batch), "2"}));
  Row row{.name = "loader/photos", .unit = "ms", .median = true};
  row.limit = photo_floor_ms();
  std::vector<Row> rows;
  for (const char* way : {"workers", "batches"}) {
    rows.push_back(row);
    rows.back().peer = std::string("torch, by ") + way;
  }
  for (uint64_t round = 0; round <= photo_rounds; ++round) {
    const double mine = TN_TRY(take(loader, stream, photo_steps));
    for (Row& each : rows) {
      const double theirs = torch.why().empty() ? torch.figure(each.peer.substr(10)) / 1e6 : -1;
      if (round == 0) continue;  // to warm up
      each.ours.push_back(mine);
      if (theirs > 0) each.theirs.push_back(theirs);
    }
  }
  for (Row& each : rows) {
    if (each.theirs.size() < each.ours.size())
      each.why_no_peer = torch.why().empty() ? "torch failed" : torch.why();
    if (!each.why_no_peer.empty()) each.theirs.clear();
    print(each);
  }
  return {};
}

// Reads that a store lets wait, as a disk or a network does: no processor is needed meanwhile.
Dataset slow_store() {
  return {.samples = 4096,
          .tensors = {{"x", {f32, {wide}}}},
          .read = [](uint64_t sample, Dataset::Bytes to) -> Status {
            std::this_thread::sleep_for(store_waits);
            const std::vector<float> numbers(wide, static_cast<float>(sample % 7));
            std::memcpy(to[0].data(), numbers.data(), to[0].size());
            return {};
          }};
}

// Computing that takes about as long as four workers read: products, one behind the other.
class Work {
 public:
  static Result<Work> make(Device& device, Stream& stream) {
    Graph g("work");
    Graph::Value x = g.input("x", {f32, {slow_batch, wide}});
    const Graph::Value w = g.input("w", {f32, {wide, wide}});
    for (int i = 0; i < products; ++i) x = g.matmul(x, w);
    g.output("y", x);
    Work out;
    out.plan_ = TN_TRY(plan(g, device));
    out.w_ = TN_TRY(device.allocate(stream, wide * wide * sizeof(float)));
    out.y_ = TN_TRY(device.allocate(stream, slow_batch * wide * sizeof(float)));
    TN_TRY(stream.fill(out.w_, 0));
    return out;
  }
  Status run(Stream& stream, const tn_span& x) {
    const Binding bindings[] = {{"x", x}, {"w", w_}, {"y", y_}};
    return plan_.run(stream, bindings);
  }

 private:
  static constexpr int products = 140;
  Plan plan_{};
  Buffer w_{}, y_{};
};

// A loop as it is written first: reads a batch, uploads it, computes.
Result<double> in_line(const Dataset& data, Work& work, Stream& stream, const Buffer& x) {
  std::vector<float> host(slow_batch * wide);
  const double start = now_ns();
  for (uint64_t step = 0; step < slow_steps; ++step) {
    for (uint64_t i = 0; i < slow_batch; ++i) {
      const std::span<std::byte> one = std::as_writable_bytes(std::span(host).subspan(i * wide, wide));
      TN_TRY(data.read(step * slow_batch + i, {&one, 1}));
    }
    TN_TRY(stream.upload(x, host));
    TN_TRY(work.run(stream, x));
    TN_TRY(stream.sync());
  }
  return (now_ns() - start) / 1e6 / slow_steps;
}

Result<double> ahead(Loader& loader, Work& work, Stream& stream) {
  const double start = now_ns();
  for (uint64_t step = 0; step < slow_steps; ++step) {
    const Batch batch = TN_TRY(loader.next(stream));
    TN_TRY(work.run(stream, batch.tensors()[0].span));
    TN_TRY(stream.sync());
  }
  return (now_ns() - start) / 1e6 / slow_steps;
}

Result<double> computing(Work& work, Stream& stream, const Buffer& x) {
  const double start = now_ns();
  for (uint64_t step = 0; step < slow_steps; ++step) {
    TN_TRY(work.run(stream, x));
    TN_TRY(stream.sync());
  }
  return (now_ns() - start) / 1e6 / slow_steps;
}

Status slow_row(Device& device, uint32_t workers) {
  Stream stream = TN_TRY(device.stream());
  const Dataset data = slow_store();
  Work work = TN_TRY(Work::make(device, stream));
  const Buffer x = TN_TRY(device.allocate(stream, slow_batch * wide * sizeof(float)));
  TN_TRY(stream.fill(x, 0));
  Loader loader = TN_TRY(Loader::open(device, data, {.batch = slow_batch, .workers = workers}));
  Row row{.name = "loader/slow_read/" + std::to_string(workers) + " workers",
          .peer = "read in line",
          .unit = "ms",
          .median = true};
  double alone = 0;
  for (uint64_t round = 0; round <= slow_rounds; ++round) {
    const double mine = TN_TRY(ahead(loader, work, stream));
    const double theirs = TN_TRY(in_line(data, work, stream, x));
    alone += TN_TRY(computing(work, stream, x))
    / static_cast<double>(slow_rounds + 1);
    if (round == 0) continue;  // to warm up
    row.ours.push_back(mine);
    row.theirs.push_back(theirs);
  }
  const double store_ms = std::chrono::duration<double, std::milli>(store_waits).count();
  row.limit = std::max(alone, store_ms * static_cast<double>(slow_batch) / workers);
  print(row);
  const LoaderFigures figures = loader.figures();
  char words[160];
  std::snprintf(
      words, sizeof words, "%s: a step computes for %.1f ms; %s", row.name.c_str(), alone,
      figures.loader_bound() ? "the loader says that it is too slow" : "the loader says that it keeps up");
  note(words);
  return {};
}

}  // namespace

void loader_rows() {
  std::fprintf(stderr, "bench train: loader\n");
  auto runtime = open_runtime();
  if (!runtime.ok()) return left_out("loader/*", std::string(runtime.message()));
  auto device = runtime->device("cpu");
  if (!device.ok()) return left_out("loader/*", std::string(device.message()));
  if (const Status done = photo_row(*device); !done.ok())
    left_out("loader/photos", std::string(done.message()));
  for (const uint32_t workers : {1u, 4u}) {
    if (const Status done = slow_row(*device, workers); !done.ok())
      left_out("loader/slow_read/" + std::to_string(workers) + " workers", std::string(done.message()));
  }
}

}  // namespace bench
