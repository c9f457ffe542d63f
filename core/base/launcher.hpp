// SPDX-License-Identifier: Apache-2.0
// launcher.hpp: the variables in which launchers tell a process its place in a job.
//
// Invariant: a launcher is recognised by its rank variable alone.
#pragma once

#include <array>

namespace tenon::base {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// In order of precedence: what the user said for Tenon, then the more special launchers before the more general.
inline constexpr std::array<Launcher, 5> launchers{{
    {"tenon", "TENON_RANK", "TENON_SIZE", "TENON_LOCAL_RANK", "TENON_LOCAL_SIZE"},
    {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
}};

// The first whose rank variable is set, or nullptr. `value_of(name)`: an optional text. [any-thread; does not block; cannot fail]
template <class ValueOf>
const Launcher* launcher_in(const ValueOf& value_of) {
  for (const Launcher& launcher : launchers) {
    if (const auto rank = value_of(launcher.rank); rank && !rank->empty()) return &launcher;
  }
  return nullptr;
}

}  // namespace tenon::base
