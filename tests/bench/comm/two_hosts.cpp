// SPDX-License-Identifier: Apache-2.0
// two_hosts.cpp: 64 MB over a wire that is slower than memory: what crosses it once decides.
//
// The limit is arithmetic: each host must hear half of the other's sum and all of its own half's result, 64 MB each way, in frames
// of Ethernet as `tc` counts them.
#include "../../support/networks.hpp"
#include "parts.hpp"
#include "players.hpp"
#include "turns.hpp"

#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <fstream>

namespace bench {
namespace {

using tenon::test::Networks;

constexpr uint32_t four = 4;
constexpr uint64_t megabytes_64 = 64 << 20;
// Of 1,500 bytes that a frame may carry, IP takes 20 and TCP 32; the frame's own head has 14.
constexpr double frame = 1514, carried = 1448;

std::vector<Contestant::Command> on_both(const Networks& networks, const char* who) {
  std::vector<Contestant::Command> out;
  for (uint32_t rank = 0; rank < four; ++rank) {
    const size_t side = rank / (four / 2);
    out.push_back(
        command_of(who, {.size = four, .host = networks.name(side), .address = Networks::address(side)}));
  }
  return out;
}

#ifdef BENCH_OPENMPI
// What Open MPI takes for ssh: the other side's network, and names and shared memory of its own, by which it knows a host.
std::string write_agent(const Networks& networks) {
  const std::string path = std::filesystem::temp_directory_path() / (networks.name(1) + "-agent");
  std::ofstream(path) << "#!/bin/sh\nshift\nexec ip netns exec " << networks.name(1)
                      << " unshare --mount --uts --ipc sh -c 'hostname " << networks.name(1)
                      << "; mount -t tmpfs tmpfs /dev/shm; exec sh -c \"$0\"' \"$*\"\n";
  chmod(path.c_str(), 0700);
  return path;
}

// `ways` is what of its own to take instead of what it would take by itself.
Contestant::Command open_mpi(const Networks& networks, const std::string& agent,
                             const std::vector<std::string>& ways = {}) {
  const std::string half = ":" + std::to_string(four / 2), wire = Networks::address(0) + "/30";
  Contestant::Command command{"ip",
                              "netns",
                              "exec",
                              networks.name(0),
                              BENCH_OPENMPI_RUN,
                              "--allow-run-as-root",
                              "--oversubscribe",
                              "--bind-to",
                              "none",
                              "--host",
                              Networks::address(0) + half + "," + Networks::address(1) + half,
                              "--mca",
                              "plm_rsh_agent",
                              agent,
                              "--mca",
                              "btl_tcp_if_include",
                              wire,
                              "--mca",
                              "oob_tcp_if_include",
                              wire};
  command.insert(command.end(), ways.begin(), ways.end());
  command.insert(command.end(), {"-n", std::to_string(four), BENCH_OPENMPI, "{socket}"});
  return command;
}
#endif

// Everybody meets on the wire that is measured, since some choose their ways by what they find there.
void over_a_wire(const Networks& networks, const std::string& row, int gigabits) {
  Contestant ours("tenon", four, on_both(networks, "hierarchy"));
  std::deque<Contestant> rivals;
  rivals.emplace_back("its flat form", four, on_both(networks, "tenon"));
#ifdef BENCH_GLOO
  rivals.emplace_back("gloo's ring", four, on_both(networks, "gloo"));
  rivals.emplace_back("gloo", four, on_both(networks, "gloo"), gloo_ways);
#endif
#ifdef BENCH_OPENMPI
  const std::string agent = write_agent(networks);
  rivals.emplace_back("Open MPI", four, std::vector<Contestant::Command>{open_mpi(networks, agent)});
  rivals.emplace_back(
      "Open MPI HAN", four,
      std::vector<Contestant::Command>{open_mpi(networks, agent, {"--mca", "coll_han_priority", "100"})});
  std::filesystem::remove(agent);
#endif
  std::vector<Contestant*> others;
  for (Contestant& rival : rivals) others.push_back(&rival);
  const double least_ms = static_cast<double>(megabytes_64) * 8 * frame / carried / (gigabits * 1e6);
  take_turns({.name = row, .unit = "ms", .limit = least_ms}, ours, others,
             {.form = Form::back_to_back, .bytes = megabytes_64}, nullptr, 1e-3);
}

}  // namespace

void two_hosts() {
  const Networks networks;
  for (const int gigabits : {1, 10}) {
    const std::string speed = std::to_string(gigabits) + "gbit",
                      row = "two_hosts_64MB/" + std::to_string(gigabits) + "Gbit";
    if (!networks)
      left_out(row, "no network namespaces here: it needs root and `ip netns`");
    else if (!networks.shape(speed))
      left_out(row, "no wire of a given speed here: it needs `tc`");
    else
      over_a_wire(networks, row, gigabits);
  }
}

}  // namespace bench
