// SPDX-License-Identifier: Apache-2.0
// rendezvous_test.cpp: what each launcher sets, and what is said when it is not enough.
// Invariant: environments are tables of the test's own; the process's is not read.
#include <tenon/comm.hpp>

#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using Variables = std::map<std::string, std::string, std::less<>>;

namespace {

// The table is refused in words that hold each of `parts`.
void check_refused(const Variables& variables, std::initializer_list<const char*> parts) {
  const auto found = Rendezvous::from(variables, std::chrono::milliseconds(100));
  REQUIRE(!found.ok());
  for (const char* part : parts)
    CHECK_MESSAGE(found.message().find(part) != std::string_view::npos, found.message());
}

}  // namespace

TEST_CASE("rendezvous: every launcher's variables are read") {
  struct Row {
    const char *launcher, *rank, *size, *local_rank, *local_size;
  };
  const Row rows[] = {
      {"tenon", "TENON_RANK", "TENON_SIZE", "TENON_LOCAL_RANK", "TENON_LOCAL_SIZE"},
      {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
      {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"mpi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
  };
  const test::TempFolder folder;
  for (const Row& row : rows) {
    const auto found = Rendezvous::from({{row.rank, "3"},
                                         {row.size, "4"},
                                         {row.local_rank, "1"},
                                         {row.local_size, "2"},
                                         {"TENON_STORE", "file://" + folder.path()}});
    REQUIRE_MESSAGE(found.ok(), found.message());
    CHECK(found->launcher == row.launcher);
    CHECK(found->rank == 3);
    CHECK(found->size == 4);
    CHECK(found->local_rank == 1);
    CHECK(found->local_size == 2);
    CHECK(found->store.address() == folder.path());
  }
}

TEST_CASE("rendezvous: rank 0 is a client like the others where the launcher serves the store") {
  const auto served = Store::serve("127.0.0.1:0", "t");
  REQUIRE(served.ok());
  Variables table{{"TENON_SIZE", "2"},
                  {"TENON_STORE", "tcp://" + served->address()},
                  {"TENON_STORE_TOKEN", "t"},
                  {"TENON_STORE_SERVER", "launcher"}};
  for (const char* rank : {"0", "1"}) {
    table["TENON_RANK"] = rank;
    auto found = Rendezvous::from(table);
    REQUIRE_MESSAGE(found.ok(), found.message());
    REQUIRE(found->store.set(std::string("from ") + rank, rank).ok());
  }
  CHECK(*Store(*served).get("from 1") == "1");
}

TEST_CASE("rendezvous: rank 0 serves the store of torchrun's address, and the others find it") {
  const auto probe = Store::serve("127.0.0.1:0", "t");
  REQUIRE(probe.ok());
  const std::string port = probe->address().substr(probe->address().find(':') + 1);
  Variables table{{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", port},
                  {"TENON_STORE_TOKEN", "t"}};
  // Somebody has that port, as torchrun's own store may: the error says where else to go.
  check_refused(table, {"MASTER_PORT", port.c_str(), "TENON_STORE"});
  table["RANK"] = "1";
  const auto second = Rendezvous::from(table);
  REQUIRE_MESSAGE(second.ok(), second.message());
  Store first = *probe, other = second->store;
  REQUIRE(first.set("key", "value").ok());
  CHECK(*other.get("key") == "value");
  // torchrun says that its agent has the port: no rank tries.
  table["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  check_refused(table, {"torchrun", port.c_str(), "TENON_STORE", "file:///FOLDER"});
}

TEST_CASE("rendezvous: a rank alone needs no store") {
  const auto found = Rendezvous::from({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  REQUIRE_MESSAGE(found.ok(), found.message());
  CHECK(found->size == 1);
  CHECK(found->store.address() == "this process");
}

TEST_CASE("rendezvous: what is missing or wrong is told with its name, its value and the remedy") {
  CHECK(Rendezvous::from({}).code() == TN_NOT_FOUND);
  check_refused({}, {"torchrun", "TENON_RANK"});
  check_refused({{"RANK", "1"}}, {"WORLD_SIZE is not set", "RANK is '1'"});
  check_refused({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK is '-1'", "whole number"});
  check_refused({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"RANK is 2", "WORLD_SIZE is 2"});
  check_refused({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, {"slurm", "TENON_STORE", "tcp://HOST:PORT"});
  const Variables mine{{"TENON_RANK", "0"}, {"TENON_SIZE", "2"}};
  const auto with = [&](const char* store) {
    Variables all = mine;
    all.emplace("TENON_STORE", store);
    return all;
  };
  check_refused(with("host:1"), {"TENON_STORE is 'host:1'", "tcp://"});
  check_refused(with("tcp://127.0.0.1:0"), {"TENON_STORE_TOKEN is not set", "openssl"});
}
