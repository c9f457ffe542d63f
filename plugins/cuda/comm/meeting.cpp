// SPDX-License-Identifier: Apache-2.0
// meeting.cpp: saying and hearing, in short waits, so that who is called off goes at once.
#include "meeting.hpp"

#include <tenon/author/text.hpp>

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

namespace tenon::cuda::comm {

using author::text;

namespace {

constexpr uint64_t short_wait_ns = 20'000'000;
constexpr std::chrono::milliseconds breath{1};
constexpr char well = '+', ill = '-';

// Containers of one machine have one, whatever they are called.
std::string this_machine() {
  std::string out;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (std::getline(boot, out) && !out.empty()) return out;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string this_device(const Context& context) {
  char id[32] = {};
  const CUresult result =
      context.driver().cuDeviceGetPCIBusId(id, static_cast<int>(sizeof id), context.device());
  return result == CUDA_SUCCESS ? id : text("cuda:", context.ordinal());
}

}  // namespace

Presence present(const Ticket& ticket, bool deterministic, const Wishes& wishes, const char* library) {
  Presence out{.process = this_process(),
               .size = ticket.size,
               .deterministic = deterministic,
               .prefers_nccl = wishes.prefers_nccl,
               .enrolling = wishes.enrolling,
               .host = this_machine(),
               .device = this_device(*ticket.gpu->context())};
  const Result<uint32_t> version = nccl_version(library);
  if (version.ok())
    out.nccl = *version;
  else
    out.why = version.message();
  return out;
}

Status Meeting::say(const std::string& what, const std::string& value) {
  tn_error error{.size = sizeof error};
  const int32_t code =
      store_.set(store_.context, key_of(place_, what).c_str(), value.data(), value.size(), &error);
  if (code == TN_OK) return {};
  if (code == TN_INVALID) {
    return Status(TN_INVALID, text("rank ", ticket_.rank, " of communicator '", ticket_.name,
                                   "' has come already: each rank joins once"));
  }
  return Status(code, text("the store did not take what rank ", ticket_.rank, " says: ", error.message));
}

Result<std::string> Meeting::hear(const std::string& what, uint32_t from) {
  const std::string key = key_of(place_, what);
  for (;;) {
    std::string value(4096, '\0');
    uint64_t bytes = 0;
    tn_error error{.size = sizeof error};
    const int32_t code =
        store_.get(store_.context, key.c_str(), value.data(), value.size(), &bytes, short_wait_ns, &error);
    if (code == TN_OK) {
      value.resize(std::min<size_t>(bytes, value.size()));
      return value;
    }
    if (code != TN_TIMEOUT)
      return Status(code, text("the store does not tell of rank ", from, ": ", error.message));
    if (patience_.called_off())
      return Status(TN_ABORTED,
                    text("communicator '", ticket_.name, "' was called off while it was being made"));
    if (patience_.over()) {
      return Status(TN_TIMEOUT, text("rank ", from, " did not join communicator '", ticket_.name, "' within ",
                                     ticket_.timeout_ns / 1'000'000, " ms"));
    }
    std::this_thread::sleep_for(breath);
  }
}

Result<Choice> Meeting::choose(const Presence& mine) {
  TN_TRY(say(text("rank/", ticket_.rank), mine.told()));
  std::vector<Presence> all;
  for (uint32_t rank = 0; rank < ticket_.size; ++rank) {
    const std::string told = TN_TRY(hear(text("rank/", rank), rank));
    all.push_back(TN_TRY(Presence::heard(told)));
    if (all.back().size == ticket_.size) continue;
    return Status(TN_MISMATCH,
                  text("rank ", ticket_.rank, " of communicator '", ticket_.name, "' was told of ",
                       ticket_.size, " ranks, and rank ", rank, " of ", all.back().size));
  }
  auto chosen = choose_way(all);
  if (chosen.ok()) return Choice{*chosen, agreed_enrolling(all)};
  return Status(chosen.code(), text("communicator '", ticket_.name, "': ", chosen.message()));
}

Result<NcclId> Meeting::agree_on_id(const char* library) {
  if (ticket_.rank == 0) {
    const Result<NcclId> made = make_nccl_id(library);
    std::string value(1, made.ok() ? well : ill);
    if (made.ok())
      value.append(reinterpret_cast<const char*>(made->data()), made->size());
    else
      value += made.message();
    TN_TRY(say("nccl", value));
  }
  const std::string value = TN_TRY(hear("nccl", 0));
  NcclId out{};
  if (value.size() == 1 + out.size() && value[0] == well) {
    std::memcpy(out.data(), value.data() + 1, out.size());
    return out;
  }
  return Status(TN_UNSUPPORTED, text("communicator '", ticket_.name, "': rank 0 could not begin with NCCL: ",
                                     value.substr(std::min<size_t>(value.size(), 1))));
}

}  // namespace tenon::cuda::comm
