// SPDX-License-Identifier: Apache-2.0
// mpi_player.cpp: a rank of an MPI, whichever this is compiled with. mpirun -n N bench_comm_… SOCKET
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "player.hpp"

#include <mpi.h>

#include <cstdio>
#include <vector>

namespace {

class MpiPlayer final : public bench::Player {
 public:
  float* memory() override { return memory_.data(); }
  void all_reduce(float* data, size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  std::vector<float> memory_ = std::vector<float>(bench::most_bytes / sizeof(float));
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int rank = 0, size = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bench::bind_to_processor(static_cast<uint32_t>(rank));
  MpiPlayer player;  // its memory is written before the conductor counts on a rank that rests
  const int socket = bench::enter(argv[1], static_cast<uint32_t>(rank));
  if (socket >= 0) bench::play(socket, player, static_cast<uint32_t>(rank), static_cast<uint32_t>(size));
  MPI_Finalize();
  return socket >= 0 ? 0 : 1;
}
