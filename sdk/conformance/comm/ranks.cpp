// SPDX-License-Identifier: Apache-2.0
// ranks.cpp: joining, running bodies on threads, and choosing whose failure is told.
#include "conformance/comm/ranks.hpp"

#include "conformance/comm/seat.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

namespace tenon::conform {

bool Together::meet(bool good) {
  std::unique_lock lock(mutex_);
  if (broken_) return false;
  good_ = good_ && good;
  const uint64_t round = round_;
  if (++come_ >= left_) {
    verdict_ = good_;
    good_ = true;
    come_ = 0;
    ++round_;
    changed_.notify_all();
    return verdict_;
  }
  const auto over = [&] { return round_ != round || broken_; };
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(2 * patience_ns_), over)) broken_ = true;
  return round_ != round && verdict_;
}

void Together::leave(bool good) {
  const std::lock_guard lock(mutex_);
  --left_;
  if (!good || come_ != 0) broken_ = true;
  changed_.notify_all();
}

Result<Communicator> Rank::join(const std::string& name, const CommForm& form) const {
  if (rank == 0) TN_TRY(store.set("id of " + name, TN_TRY(make_id(t, device))));
  const Bytes id = TN_TRY(store.get("id of " + name, t.settings().patience_ns));
  return Communicator::create(t, device, rank, size, id, store.table(), name, form);
}

Status Rank::meet() const { return agree({}); }

Status Rank::agree(Status mine) const {
  if (together == nullptr) return mine;
  const bool all = together->meet(mine.ok());
  if (!mine.ok() || all) return mine;
  return Status(TN_ABORTED, "another rank failed, or did not come");
}

namespace {

// What a rank says when another has failed before it.
bool is_echo(const Status& said) {
  return said.code() == TN_ABORTED || said.code() == TN_PEER_LOST || said.code() == TN_TIMEOUT;
}

// The threads of one meeting.
class Threads {
 public:
  Threads(Context& t, uint32_t size, const Body& body, const CommForm& form)
      : t_(t), body_(body), form_(form), together_(size, t.settings().patience_ns), said_(size) {}

  Status run(std::span<Device* const> devices, const FolderStore& store, const RankWatch& watch) {
    for (uint32_t r = 0; r < said_.size(); ++r) {
      ranks_.push_back(Rank{.t = t_,
                            .device = *devices[r % devices.size()],
                            .store = store,
                            .rank = r,
                            .size = static_cast<uint32_t>(said_.size()),
                            .together = &together_});
    }
    std::vector<std::thread> threads;
    for (Rank& rank : ranks_) threads.emplace_back([this, &rank] { live(rank); });
    look_on(watch);
    for (std::thread& thread : threads) thread.join();
    return verdict();
  }

 private:
  void look_on(const RankWatch& watch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return joined_ + failed_ == ranks_.size(); });
    if (watch && failed_ == 0) {
      std::vector<Rank*> ranks;
      for (Rank& rank : ranks_) ranks.push_back(&rank);
      lock.unlock();
      watch(ranks);
      lock.lock();
    }
    watched_ = true;
    changed_.notify_all();
  }

  // A rank's life. Its communicator and stream end here, on its own thread.
  void live(Rank& rank) {
    Status said = guarded([&] { return join(rank); });
    const bool joined = said.ok();
    if (said.code() == TN_UNSUPPORTED) refused_ = true;
    note(joined);
    if (joined) said = guarded([&] { return body_(rank); });
    together_.leave(said.ok());
    if (!said.ok()) give_up(rank);
    end(rank, said.ok());
    said_[rank.rank] = std::move(said);
  }
  Status join(Rank& rank) {
    rank.stream = TN_TRY(rank.device.stream());
    rank.comm = TN_TRY(rank.join("the ranks", form_));
    const std::lock_guard lock(mutex_);
    standing_.push_back(&rank.comm);
    return {};
  }
  void note(bool joined) {
    const std::lock_guard lock(mutex_);
    ++(joined ? joined_ : failed_);
    changed_.notify_all();
  }
  // Work that this rank leaves behind would keep the others waiting until their patience ends.
  void give_up(Rank& rank) {
    rank.forgive();
    const std::lock_guard lock(mutex_);
    for (const Communicator* const comm : standing_) static_cast<void>(comm->abort());
  }
  // Nobody else has the communicator in hand any more.
  void end(Rank& rank, bool good) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return watched_; });
      std::erase(standing_, &rank.comm);
    }
    rank.comm = Communicator();
    if (!good) static_cast<void>(rank.stream.destroy(TN_DESTROY_ABANDON));
    rank.stream = Stream();
  }
  template <class F>
  Status guarded(F&& f) {
    try {
      return f();
    } catch (const std::exception& escaped) {
      return Status(TN_INTERNAL, words("an exception left the plugin: ", escaped.what()));
    }
  }

  Status verdict() {
    if (refused_) return refusal();
    const auto worst = [&](auto&& wanted) {
      return std::find_if(said_.begin(), said_.end(),
                          [&](const Status& said) { return !said.ok() && wanted(said); });
    };
    auto told = worst([](const Status& said) { return !is_echo(said); });
    if (told == said_.end()) told = worst([](const Status&) { return true; });
    if (told == said_.end()) return {};
    return Status(told->code(),
                  words("rank ", told - said_.begin(), " of ", said_.size(), ": ", told->message()));
  }

  Status refusal() {
    const auto said =
        std::find_if(said_.begin(), said_.end(), [](const Status& s) { return s.code() == TN_UNSUPPORTED; });
    const char* const tag = (form_.flags & TN_COMM_DETERMINISTIC) != 0  ? "comm.deterministic"
                            : (form_.flags & TN_COMM_NON_BLOCKING) != 0 ? "comm.non_blocking"
                                                                        : "comm.threads";
    return t_.unsupported(tag, std::string(said->message()));
  }

  Context& t_;
  const Body& body_;
  const CommForm form_;
  Together together_;
  std::vector<Status> said_;
  std::deque<Rank> ranks_{};
  std::atomic<bool> refused_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const Communicator*> standing_{};
  size_t joined_ = 0, failed_ = 0;
  bool watched_ = false;
};

// The devices from the one under test on, one for each rank, where there are as many.
Result<std::vector<std::unique_ptr<Device>>> more_devices(Context& t, uint32_t size) {
  std::vector<std::unique_ptr<Device>> out;
  if (TN_TRY(device_count(t)) < t.settings().device + size) return out;
  for (uint32_t r = 1; r < size; ++r) out.push_back(TN_TRY(Device::open(t, t.settings().device + r)));
  return out;
}

}  // namespace

Result<uint32_t> device_count(Context& t) {
  const Tables& api = *TN_TRY(t.tables());
  uint32_t count = 0;
  TN_TRY(t.call("device.count", [&](tn_error* e) { return api.device.count(api.plugin, &count, e); }));
  return count;
}

Status as_threads(Context& t, uint32_t size, const Body& body, const CommForm& form, const RankWatch& watch) {
  if (stage().seat.size != 0) return {};  // this process plays a rank of another meeting
  TN_TRY(needs_communicators(t));
  Device* const first = TN_TRY(t.device());
  const auto others = TN_TRY(more_devices(t, size));
  std::vector<Device*> devices{first};
  for (const auto& other : others) devices.push_back(other.get());
  const MeetingPlace place = TN_TRY(MeetingPlace::make());
  const FolderStore store(place.folder());
  Threads threads(t, size, body, form);
  return threads.run(devices, store, watch);
}

}  // namespace tenon::conform
