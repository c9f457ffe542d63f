// SPDX-License-Identifier: Apache-2.0
// fabric.cpp: the thread's round: wait, move bytes, let hubs and ranks hear, close what is over.
#include "fabric.hpp"

#include <algorithm>
#include <chrono>

namespace tenon::sim::comm {

using driver::Socket;

namespace {

constexpr uint64_t never = UINT64_MAX;

}  // namespace

Fabric::~Fabric() {
  Lock held = lock();
  stop(held);
}

Result<Place> Fabric::open_hub() {
  const Lock held = lock();
  Home home;
  home.place = {driver::process(), ++opened_, driver::random_bits()};
  home.door.emplace(TN_TRY(Socket::listen(home.place.name())));
  if (!bell_) bell_.emplace(TN_TRY(Socket::bell()));
  homes_.push_back(std::move(home));
  Home& kept = homes_.back();
  kept.hub = std::make_unique<Hub>(kept.place.process, [&kept](uint64_t rank, const Frame& frame) {
    for (Home::Guest& guest : kept.guests)
      if (guest.rank == rank) guest.wire.reel.push(frame);
  });
  start();
  return kept.place;
}

Status Fabric::attach(Ear& ear, const Place& place, const Hello& hello) {
  if (!bell_) bell_.emplace(TN_TRY(Socket::bell()));
  Socket socket = TN_TRY(Socket::connect(place.name()));
  lines_.push_back({&ear, {std::move(socket)}});
  lines_.back().wire.reel.push(frame_of(hello));
  start();
  return {};
}

void Fabric::say(Ear& ear, const Frame& frame) {
  Line* const line = line_of(ear);
  if (line == nullptr || line->wire.cut) return;
  line->wire.reel.push(frame);
  ring();
}

void Fabric::detach(Lock& lock, Ear& ear, uint64_t patience_ns) {
  say(ear, frame_of(Topic::left));
  (void)wait(lock, driver::now_ns() + patience_ns, [&] {
    const Line* const line = line_of(ear);
    return line == nullptr || line->wire.cut;
  });
  lines_.remove_if([&](const Line& line) { return line.ear == &ear; });
}

bool Fabric::wait(Lock& lock, uint64_t deadline_ns, const std::function<bool()>& done) {
  while (!done()) {
    const uint64_t now = driver::now_ns();
    if (now >= deadline_ns) return false;
    // Whoever was destroyed without the thread is not told of by it; so nobody sleeps for ever.
    const uint64_t slice = std::min<uint64_t>(deadline_ns - now, 100'000'000);
    changed_.wait_for(lock, std::chrono::nanoseconds(slice));
  }
  return true;
}

void Fabric::ring() const noexcept {
  if (bell_) bell_->ring();
}

Fabric::Line* Fabric::line_of(const Ear& ear) {
  const auto found = std::ranges::find(lines_, &ear, &Line::ear);
  return found == lines_.end() ? nullptr : &*found;
}

void Fabric::start() {
  ring();
  if (runs_) return;
  if (thread_.joinable()) thread_.join();  // it has left its last round
  runs_ = true;
  thread_ = std::thread([this] { serve(); });
}

void Fabric::stop(Lock& lock) {
  stopping_ = true;
  ring();
  std::thread thread = std::move(thread_);
  lock.unlock();
  if (thread.joinable()) thread.join();
  lock.lock();
  stopping_ = false;
}

void Fabric::quiesce() {
  Lock held = lock();
  const bool needed =
      !lines_.empty() || std::ranges::any_of(homes_, [](const Home& h) { return !h.guests.empty(); });
  if (needed) return;
  stop(held);
  if (!lines_.empty()) start();
}

void Fabric::serve() {
  Lock held = lock();
  while (!stopping_ && !(homes_.empty() && lines_.empty())) {
    std::vector<driver::Watch> seen = watches();
    const uint64_t now = driver::now_ns(), until = due();
    held.unlock();
    driver::wait_for(seen, until == never ? never : until - std::min(now, until));
    held.lock();
    bell_->hush();
    tend(driver::now_ns());
    changed_.notify_all();
  }
  runs_ = false;
}

std::vector<driver::Watch> Fabric::watches() const {
  std::vector<driver::Watch> out{{bell_->file()}};
  const auto add = [&](const Wire& wire) {
    if (!wire.cut) out.push_back({wire.socket.file(), !wire.reel.unsent().empty()});
  };
  for (const Home& home : homes_) {
    if (home.door) out.push_back({home.door->file()});
    for (const Home::Guest& guest : home.guests) add(guest.wire);
  }
  for (const Line& line : lines_) add(line.wire);
  return out;
}

uint64_t Fabric::due() const noexcept {
  uint64_t out = never;
  for (const Home& home : homes_) out = std::min(out, home.hub->due());
  for (const Line& line : lines_) out = std::min(out, line.ear->due());
  return out;
}

// As many bytes as go without waiting.
void Fabric::send(Wire& wire) {
  while (!wire.cut && !wire.reel.unsent().empty()) {
    const int64_t went = wire.socket.send(wire.reel.unsent());
    if (went == 0) break;
    if (went > 0) wire.reel.went(static_cast<size_t>(went));
    if (went < 0) break;  // what it said before it went can still be read
  }
}

// As many bytes as have come; whoever receives looks at what they are, or they lie there until more come.
void Fabric::receive(Wire& wire) {
  std::byte room[65536];
  while (!wire.cut) {
    const int64_t came = wire.socket.receive(room);
    if (came == 0) break;
    if (came > 0) wire.reel.came(std::span(room).first(static_cast<size_t>(came)));
    if (came < 0) wire.cut = true;
  }
}

void Fabric::tend(uint64_t now_ns) {
  for (Home& home : homes_) tend_home(home, now_ns);
  homes_.remove_if([](const Home& home) { return home.over(); });
  for (Line& line : lines_) {
    send(line.wire);
    receive(line.wire);
    while (const auto frame = line.wire.reel.pop()) line.ear->hear(*frame);
    line.ear->look(now_ns);
    if (line.wire.cut || line.wire.reel.torn()) line.ear->cut_off();
  }
}

void Fabric::tend_home(Home& home, uint64_t now_ns) {
  while (home.door) {
    auto come = home.door->accept();
    if (!come) break;
    home.guests.push_back({{std::move(*come)}});
  }
  for (Home::Guest& guest : home.guests) {
    receive(guest.wire);
    while (const auto frame = guest.wire.reel.pop()) receive(home, guest, *frame, now_ns);
    if (guest.wire.reel.torn()) guest.wire.cut = true;
    if (guest.wire.cut && guest.rank && !guest.leaves) home.hub->lose(*guest.rank);
  }
  home.hub->look(now_ns);
  for (Home::Guest& guest : home.guests) send(guest.wire);
  let_go(home);
  if (home.hub->stands() || home.hub->failed()) home.door.reset();
  home.guests.remove_if([](const Home::Guest& guest) { return guest.wire.cut; });
}

// Those who leave, once nothing is left to be sent to those who stay.
void Fabric::let_go(Home& home) {
  const bool unsent = std::ranges::any_of(home.guests, [](const Home::Guest& guest) {
    return !guest.leaves && !guest.wire.cut && !guest.wire.reel.unsent().empty();
  });
  for (Home::Guest& guest : home.guests) guest.wire.cut = guest.wire.cut || (guest.leaves && !unsent);
}

// Trouble on purpose: what this rank brings is the last that anybody hears of it.
bool Fabric::loses_peer(Home& home, Home::Guest& guest) {
  if (peer_lost_at_ == 0 || ++home.groups != peer_lost_at_) return false;
  home.hub->lose(*guest.rank, "its connection was cut on purpose (sim.peer_lost_at)");
  guest.leaves = true;  // the hub has let it go
  guest.wire.cut = true;
  return true;
}

void Fabric::receive(Home& home, Home::Guest& guest, const Frame& frame, uint64_t now_ns) {
  Hub& hub = *home.hub;
  if (!guest.rank) {
    const auto hello = hello_in(frame);
    if (!hello || hello->token != home.place.token || hello->size == 0 || hello->rank >= hello->size) {
      guest.wire.cut = true;  // a stranger
      return;
    }
    guest.rank = hello->rank;
    const Status said = hub.enter(*hello);
    if (said.ok()) return;
    guest.rank.reset();
    guest.wire.reel.push(frame_of(said.error()));
    return;
  }
  switch (frame.topic) {
    case Topic::group:
      if (loses_peer(home, guest)) break;
      if (auto group = group_in(frame)) {
        hub.bring(*guest.rank, std::move(*group), now_ns);
      } else {
        guest.wire.cut = true;
      }
      break;
    case Topic::aborted:
      hub.fail({.code = TN_ABORTED, .message = words_in(frame)});
      break;
    case Topic::left:
      hub.leave(*guest.rank);
      guest.leaves = true;
      break;
    default:
      guest.wire.cut = true;
      break;
  }
}

}  // namespace tenon::sim::comm
