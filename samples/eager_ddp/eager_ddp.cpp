// SPDX-License-Identifier: Apache-2.0
// eager_ddp: a training loop by hand, one kernel after the other, whose gradients GradientSync averages over all ranks.
//
//   eager_ddp [4]                                            so many ranks (two), as processes of this program
//   eager_ddp 2 runs                                         the same in three ways, measured, with timelines in folder `runs`
//   TENON_STORE=file:///tmp/job1 mpirun -n 4 eager_ddp       the ranks of a launcher (also srun, torchrun --no-python)
//                                                            that meet in a folder, a new one for each job
//
// Each rank learns from samples of its own what one network of random weights computes.
// Invariant: a rank says "right" only after the loss fell by half or more, and all ranks have the same weights to the bit.
#include "network.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace eager_ddp;

// How gradients leave, on a network of which size.
struct Way {
  std::string name;
  OverlapOptions overlap;
  std::vector<int64_t> widths;
  uint32_t steps;
};

const Way plain{"planned", {}, {16, 128, 128, 1}, 60};

// The figures that the overlap of communication is explained by: each bucket awaited on the spot; one stream for the gradients
// beside that of the kernels; three. A bucket for each layer, so that there is something to overlap.
Way wide(const char* name, OverlapOptions overlap) {
  overlap.mode = BucketRule::documents;
  overlap.fuse_grad_size_in_mb = 1;
  return {name, overlap, {64, 512, 512, 512, 512, 1}, 25};
}
const Way figures[] = {wide("no overlap", {.sync_nccl_allreduce = true}),
                       wide("one stream", {.nccl_comm_num = 1}), wide("three streams", {.nccl_comm_num = 3})};
constexpr uint32_t warm_up = 5;  // steps that are not shown

Result<double> loss_of(Stream& stream, const Network& student, const Network& teacher) {
  std::vector<float> found(batch), expected(batch);
  TN_TRY(stream.download(found, student.out()));
  TN_TRY(stream.download(expected, teacher.out()));
  TN_TRY(stream.sync());
  double loss = 0;
  for (size_t i = 0; i < found.size(); ++i)
    loss += static_cast<double>((found[i] - expected[i]) * (found[i] - expected[i])) / batch;
  return loss;
}

// Whether rank 0's weights are this rank's, too.
Status compare_weights(Device& device, Stream& stream, Communicator& comm, Network& network) {
  for (Layer& l : network.parameters()) {
    std::vector<float> mine(l.weight.bytes() / sizeof(float)), first(mine.size());
    const Buffer copy = TN_TRY(device.allocate(stream, l.weight.bytes()));
    TN_TRY(stream.copy(copy, l.weight));
    TN_TRY(comm.broadcast(stream, copy, f32, 0));
    TN_TRY(stream.download(mine, l.weight));
    TN_TRY(stream.download(first, copy));
    TN_TRY(stream.sync());
    if (mine != first) return {TN_INTERNAL, "this rank has other weights than rank 0"};
  }
  return {};
}

// One rank's training; with a `file`, what it measured is written there.
Status train(const Rendezvous& here, const Way& way, const std::string& file) {
  RuntimeOptions options;
  if (here.rank == 0 && file.empty()) options.log_level = LogLevel::info;  // tells of the plans
  auto tenon = TN_TRY(Runtime::open(options));
  auto device = TN_TRY(tenon.device("cpu"));
  auto stream = TN_TRY(device.stream({.name = "compute"}));
  auto comm = TN_TRY(Communicator::create(device, here.store, here.rank, here.size, {.name = way.name}));
  Timeline timeline;
  if (!file.empty()) timeline = TN_TRY(Timeline::create(device, {.rank = here.rank}));

  auto teacher = TN_TRY(Network::make(device, stream, way.widths, 1))
  , student = TN_TRY(Network::make(device, stream, way.widths, 2));
  std::vector<Gradient> parameters;
  for (size_t i = 0; i + 1 < way.widths.size(); ++i)
    parameters.push_back({.name = "layer" + std::to_string(i) + ".weight",
                          .elements = static_cast<uint64_t>(way.widths[i] * way.widths[i + 1])});
  auto sync = TN_TRY(GradientSync::create(device, comm, parameters, way.overlap, {.timeline = timeline}));

  std::mt19937 random(100 + here.rank);  // samples of its own
  const auto x =
      TN_TRY(device.allocate(stream, static_cast<uint64_t>(batch * way.widths[0]) * sizeof(float)));
  double before = 0, loss = 0;
  Timeline unseen;
  for (uint32_t step = 0; step < way.steps; ++step) {
    if (step == warm_up) timeline.take();
    TN_TRY(stream.upload(x, normal(random, batch * way.widths[0], 1)));
    TN_TRY(teacher.forward(stream, x, unseen));
    TN_TRY(student.forward(stream, x, timeline));
    TN_TRY(sync.begin(stream));
    TN_TRY(student.backward(stream, sync, x, teacher.out(), timeline));
    TN_TRY(sync.finish(stream, {.samples = batch}));
    TN_TRY(student.update(stream, sync, timeline));
    loss = TN_TRY(loss_of(stream, student, teacher));
    if (step == 0) before = loss;
    if (here.rank == 0 && file.empty() && (step % 20 == 0 || step + 1 == way.steps))
      std::printf("step %3u: loss %.4f\n", step, loss);
  }
  if (here.rank == 0 && file.empty()) std::printf("%s", sync.plan().explain().c_str());
  TN_TRY(compare_weights(device, stream, comm, student));
  if (loss > before / 2)
    return {TN_INTERNAL, "the loss fell from " + std::to_string(before) + " only to " + std::to_string(loss)};
  std::printf("%s: rank %u of %u: right\n", way.name.c_str(), here.rank, here.size);
  return timeline.write(file);
}

int told(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "eager_ddp: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

// "runs/no-overlap.rank0.json"
std::string file_of(const std::string& folder, const Way& way, uint32_t rank) {
  std::string name = way.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return folder + "/" + name + ".rank" + std::to_string(rank) + ".json";
}

// Ranks are forked before anything of Tenon runs, because devices do not survive a fork.
int run_processes(uint32_t size, const Way& way, const std::string& runs) {
  std::string folder = std::filesystem::temp_directory_path() / "eager_ddp-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return told({TN_INVALID, "cannot make " + folder});
  std::fflush(stdout);
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    auto store = Store::in_folder(folder);
    const std::string file = runs.empty() ? "" : file_of(runs, way, rank);
    const int code = told(store.ok() ? train({.rank = rank, .size = size, .store = *store}, way, file)
                                     : std::move(store).failure());
    std::fflush(stdout);
    _exit(code);
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;) worst = status == 0 ? worst : 1;
  std::filesystem::remove_all(folder);
  return worst;
}

// What a way's timelines add up to, for one step of one rank.
Status compare(const Way& way, const std::string& runs, uint32_t size) {
  std::vector<std::string> files;
  for (uint32_t rank = 0; rank < size; ++rank) files.push_back(file_of(runs, way, rank));
  const TraceTotals all = summarize(TN_TRY(Trace::read(files))).all;
  const double each = 1e6 * size * (way.steps - warm_up);
  std::printf("%-14s %9.2f %12.2f %16.2f %12.2f %9.0f %%\n", way.name.c_str(), all.wall_ns / each,
              all.compute_ns / each, all.communication_ns / each, all.exposed_ns / each, 100 * all.overlap());
  return {};
}

int run_figures(uint32_t size, const std::string& runs) {
  std::error_code failed;
  std::filesystem::create_directories(runs, failed);
  if (failed) return told({TN_INVALID, "cannot make " + runs + ": " + failed.message()});
  for (const Way& way : figures) {
    if (run_processes(size, way, runs) != 0) return 1;
  }
  std::printf("\nms of a step   wall      compute    communication      exposed    overlap\n");
  for (const Way& way : figures) {
    if (told(compare(way, runs, size)) != 0) return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t size = argc > 1 ? static_cast<uint32_t>(std::max(1, std::atoi(argv[1]))) : 2;
  if (argc > 2) return run_figures(size, argv[2]);
  if (argc > 1) return run_processes(size, plain, "");
  auto here = Rendezvous::from_environment();
  if (here.code() == TN_NOT_FOUND) return run_processes(size, plain, "");  // no launcher started this
  return told(here.ok() ? train(*here, plain, "") : std::move(here).failure());
}
