// SPDX-License-Identifier: Apache-2.0
// digits: a small network learns handwritten digits, three times over: as it is written; fused; fused, with gradients that
// leave while backward goes on, in bf16. Then a table of what that came to.
//
//   digits [8] [FOLDER]                              so many epochs (two), on one rank; timelines in FOLDER
//   tenon run -n 2 --quiet -- digits 8 FOLDER        two ranks share each step's 64 samples (also torchrun, mpirun, srun)
//
// Invariant: all three ways begin with the same numbers and see the same samples, and each is told apart by its strategy alone.
#include "learning.hpp"

#include <tenon/tenon.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace tenon;
using digits::World;

constexpr uint32_t traced_steps = 20;

struct Way {
  const char* name;
  const char* file;
  Strategy strategy;
};

std::vector<Way> ways() {
  Way written{"as written", "as-written", {}}, fused{"fused", "fused", {}};
  Way all{"fused, overlapped, bf16", "overlapped", {}};
  Strategy& s = written.strategy;
  s.enable_auto_fusion = s.fuse_elewise_add_act_ops = s.fuse_patterns = s.fuse_all_optimizer_ops = false;
  s.fuse_all_reduce_ops = s.enable_inplace = s.enable_addto = false;
  s.sync_nccl_allreduce = true;
  fused.strategy.bucket_mode = BucketRule::none;  // everything at once after backward
  all.strategy.amp = true;
  return {written, fused, all};
}

struct Row {
  double step_ms = 0, accuracy = 0;
  ExecutorFigures figures{};
  uint64_t moved_bytes = 0;
};

// The middle one of the last epoch's times.
double median_ms(std::vector<double> times, size_t last) {
  times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(std::min(last, times.size())));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

Result<Row> train(World& w, const Way& way, uint64_t epochs) {
  Loader loader = TN_TRY(digits::open_loader(w));
  Executor executor = TN_TRY(digits::open_executor(w, way.strategy));
  std::vector<double> times;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    float loss = 0;
    for (uint64_t i = 0; i < loader.steps(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      const Batch samples = TN_TRY(loader.next(executor.stream()));
      const Binding fetch = fetched("loss", loss);
      TN_TRY(executor.run(samples.bindings(), {&fetch, 1}));
      times.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    if (w.here.rank == 0)
      std::printf("%s: epoch %2s, loss %.4f\n", way.name, std::to_string(epoch + 1).c_str(),
                  static_cast<double>(loss));
  }
  Row row{.step_ms = median_ms(times, loader.steps()), .figures = executor.figures()};
  row.accuracy = TN_TRY(digits::accuracy(w, executor));
  row.moved_bytes = executor.plan().cut().bytes_after + row.figures.sent_bytes;
  return row;
}

// A few steps more, measured, into FOLDER/as-written.rank0.json.
Status trace(World& w, const Way& way, const std::string& folder) {
  Timeline timeline = TN_TRY(Timeline::create(w.device, {.rank = w.here.rank}));
  Loader loader = TN_TRY(digits::open_loader(w, timeline));
  Executor executor = TN_TRY(digits::open_executor(w, way.strategy, timeline));
  for (uint32_t i = 0; i < 2 * traced_steps; ++i) {
    if (i == traced_steps) timeline.take();
    TN_TRY(executor.run(TN_TRY(loader.next(executor.stream())).bindings()));
    TN_TRY(executor.sync());
  }
  return timeline.write(folder + "/" + way.file + ".rank" + std::to_string(w.here.rank) + ".json");
}

Status train_all(World& w, uint64_t epochs, const std::string& folder) {
  std::vector<std::pair<const char*, Row>> rows;
  for (const Way& way : ways()) {
    rows.emplace_back(way.name, TN_TRY(train(w, way, epochs)));
    if (!folder.empty()) TN_TRY(trace(w, way, folder));
  }
  if (w.here.rank != 0) return {};
  std::printf("\n%-24s %9s %9s %12s %12s %11s %9s\n", "", "ms a step", "launches", "all-reduces", "MiB moved",
              "peak MiB", "accuracy");
  for (const auto& [name, row] : rows) {
    std::printf("%-24s %9.2f %9llu %12llu %12.1f %11.1f %8.1f%%\n", name, row.step_ms,
                static_cast<unsigned long long>(row.figures.launches),
                static_cast<unsigned long long>(row.figures.all_reduces),
                static_cast<double>(row.moved_bytes) / 0x1p20,
                static_cast<double>(row.figures.peak_bytes()) / 0x1p20, 100 * row.accuracy);
  }
  return {};
}

Status run(uint64_t epochs, const std::string& folder) {
  auto here = Rendezvous::from_environment();
  if (!here.ok() && here.code() != TN_NOT_FOUND) return std::move(here).failure();
  Runtime runtime = TN_TRY(Runtime::open());
  Device device = TN_TRY(runtime.device("cpu"));
  World w{.device = std::move(device), .file = DIGITS_FILE};
  if (const char* const file = std::getenv("DIGITS_FILE")) w.file = file;
  if (here.ok()) w.here = *here;  // else no launcher started this: one rank
  if (digits::batch % w.here.size != 0)
    return {TN_INVALID, std::to_string(w.here.size) + " ranks do not share " + std::to_string(digits::batch) +
                            " samples evenly"};
  if (w.here.size > 1)
    w.comm = TN_TRY(Communicator::create(w.device, w.here.store, w.here.rank, w.here.size));
  return train_all(w, epochs, folder);
}

}  // namespace

int main(int argc, char** argv) {
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 2;
  if (epochs < 1) {
    std::fprintf(stderr, "digits: '%s' is no number of epochs: give 1 or more\n", argv[1]);
    return 2;
  }
  const Status status = run(static_cast<uint64_t>(epochs), argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "digits: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
