// SPDX-License-Identifier: Apache-2.0
// all_reduce: the mean of what all ranks have, in place, in the order of a stream.
//
//   all_reduce [4]                                            so many ranks (two), as processes of this program
//   TENON_STORE=file:///tmp/job1 mpirun -n 4 all_reduce      the ranks of a launcher (also srun, torchrun --no-python)
//                                                            that meet in a folder, a new one for each job
//
// Invariant: a rank says "right" only after every element was compared.
#include <tenon/tenon.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr uint64_t count = 1 << 20;

tenon::Status run(const tenon::Rendezvous& here) {
  auto tenon = TN_TRY(tenon::Runtime::open());
  auto device = TN_TRY(tenon.device("cpu"));
  auto stream = TN_TRY(device.stream());
  auto comm = TN_TRY(tenon::Communicator::create(device, here.store, here.rank, here.size));

  std::vector<float> host(count, static_cast<float>(here.rank));
  const auto gradients = TN_TRY(device.allocate(stream, count * sizeof(float)));
  TN_TRY(stream.upload(gradients, host));
  TN_TRY(comm.all_reduce(stream, gradients, gradients, tenon::f32, tenon::Reduction::avg));
  TN_TRY(stream.download(host, gradients));
  TN_TRY(stream.sync());

  const float mean = static_cast<float>(here.size - 1) / 2;
  for (const float x : host) {
    if (x != mean) return {TN_INTERNAL, "the mean is " + std::to_string(x) + ", not " + std::to_string(mean)};
  }
  std::printf("rank %u of %u: the mean of %llu elements is %g, right\n", here.rank, here.size,
              static_cast<unsigned long long>(count), static_cast<double>(mean));
  return {};
}

int told(const tenon::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "all_reduce: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

// Ranks are forked before anything of Tenon runs, because devices do not survive a fork.
int run_processes(uint32_t size) {
  std::string folder = std::filesystem::temp_directory_path() / "all_reduce-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return told({TN_INVALID, "cannot make " + folder});
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    auto store = tenon::Store::in_folder(folder);
    const int code =
        told(store.ok() ? run({.rank = rank, .size = size, .store = *store}) : std::move(store).failure());
    std::fflush(stdout);
    _exit(code);
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;) worst = status == 0 ? worst : 1;
  std::filesystem::remove_all(folder);
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return run_processes(static_cast<uint32_t>(std::max(1, std::atoi(argv[1]))));
  auto here = tenon::Rendezvous::from_environment();
  if (here.code() == TN_NOT_FOUND) return run_processes(2);  // no launcher started this
  return told(here.ok() ? run(*here) : std::move(here).failure());
}
