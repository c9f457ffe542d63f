// SPDX-License-Identifier: Apache-2.0
// rendezvous.cpp: what launchers put into the environment, a row for each, and the store that goes with it.
//
// Invariant: what is missing or wrong beside a launcher's rank variable is an error that names the variable, its value and
// the remedy.
#include "base/environment.hpp"
#include "base/launcher.hpp"
#include "base/text.hpp"
#include "comm/store.hpp"

#include <charconv>
#include <optional>

namespace tenon {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

std::optional<std::string> value_of(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  if (found == variables.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<uint32_t> number(const Variables& variables, const char* name, const std::string& because) {
  const auto value = value_of(variables, name);
  if (!value) return Status(TN_INVALID, std::string(name) + " is not set, but " + because + ": set both");
  uint32_t out = 0;
  const char* end = value->data() + value->size();
  const auto read = std::from_chars(value->data(), end, out);
  if (read.ec == std::errc() && read.ptr == end) return out;
  return Status(TN_INVALID,
                std::string(name) + " is " + base::quoted(*value) + ": it must be a whole number from 0 on");
}

Status read_numbers(const Variables& variables, const base::Launcher& launcher, Rendezvous& out) {
  const std::string because =
      std::string(launcher.rank) + " is " + base::quoted(*value_of(variables, launcher.rank));
  out.launcher = launcher.name;
  out.rank = TN_TRY(number(variables, launcher.rank, because));
  out.size = TN_TRY(number(variables, launcher.size, because));
  if (out.rank >= out.size) {
    return Status(TN_INVALID, std::string(launcher.rank) + " is " + std::to_string(out.rank) + " and " +
                                  launcher.size + " is " + std::to_string(out.size) +
                                  ": ranks are numbered from 0 to size - 1");
  }
  // Those on this host need not be told: then the rank is taken for alone there.
  if (value_of(variables, launcher.local_rank))
    out.local_rank = TN_TRY(number(variables, launcher.local_rank, because));
  if (value_of(variables, launcher.local_size))
    out.local_size = TN_TRY(number(variables, launcher.local_size, because));
  return {};
}

// "tcp://HOST:PORT" or "file:///FOLDER", and which variable said so.
struct StorePlace {
  std::string url, variable;
};

Result<StorePlace> store_place(const Variables& variables, const Rendezvous& who) {
  if (const auto url = value_of(variables, "TENON_STORE")) return StorePlace{*url, "TENON_STORE"};
  const auto host = value_of(variables, "MASTER_ADDR"), port = value_of(variables, "MASTER_PORT");
  const bool given = who.launcher == "torchrun" && host && port;
  const bool theirs =
      given && value_of(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True";  // the agent listens there
  if (given && !theirs) return StorePlace{"tcp://" + *host + ":" + *port, "MASTER_PORT"};
  const std::string why =
      theirs ? " keeps " + *host + ":" + *port + " for itself, and does not tell where ranks meet"
             : " tells ranks but not where they meet";
  return Status(
      TN_INVALID,
      "launcher '" + who.launcher + "'" + why +
          ": set TENON_STORE to file:///FOLDER, one that all ranks see and that is new for each job, or to "
          "tcp://HOST:PORT, an address of rank 0's host, with TENON_STORE_TOKEN");
}

Result<Store> open_store(const Variables& variables, const Rendezvous& who, Timeout timeout) {
  const StorePlace place = TN_TRY(store_place(variables, who));
  const std::string_view url = place.url;
  constexpr std::string_view tcp = "tcp://", file = "file://";
  if (url.starts_with(file) && url.size() > file.size())
    return Store::in_folder(std::string(url.substr(file.size())));
  if (!url.starts_with(tcp)) {
    return Status(TN_INVALID, place.variable + " is " + base::quoted(url) +
                                  ": it must be tcp://HOST:PORT or file:///FOLDER");
  }
  const auto token = value_of(variables, "TENON_STORE_TOKEN");
  if (!token) {
    return Status(TN_INVALID, "TENON_STORE_TOKEN is not set, and the store is " + place.url +
                                  ": give all ranks of the job one secret, as from `openssl rand -hex 16`");
  }
  const std::string address(url.substr(tcp.size()));
  const bool launchers = value_of(variables, "TENON_STORE_SERVER") == "launcher";
  const bool serves = who.rank == 0 && !launchers;
  auto store = serves ? Store::serve(address, *token) : Store::connect(address, *token, timeout);
  if (store.ok()) {
    store->state()->server = launchers ? "the launcher" : "rank 0";
    return store;
  }
  return Status(store.code(),
                place.variable + ": " + std::string(store.message()) +
                    (place.variable == "TENON_STORE" ? "" : "; TENON_STORE names another place"));
}

}  // namespace

Result<Rendezvous> Rendezvous::from(const Variables& variables, Timeout timeout) {
  const base::Launcher* launcher =
      base::launcher_in([&](std::string_view name) { return value_of(variables, name); });
  if (launcher == nullptr) {
    return Status(
        TN_NOT_FOUND,
        "no launcher's variables are set: start the job with tenon run, torchrun, mpirun or srun, or set "
        "TENON_RANK, TENON_SIZE and TENON_STORE");
  }
  Rendezvous out;
  TN_TRY(read_numbers(variables, *launcher, out));
  if (out.size == 1 && !value_of(variables, "TENON_STORE")) {
    out.store = Store::in_process();
    return out;
  }
  out.store = TN_TRY(open_store(variables, out, timeout));
  return out;
}

Result<Rendezvous> Rendezvous::from_environment(Timeout timeout) {
  return from(base::Environment::of_process().all(), timeout);
}

}  // namespace tenon
