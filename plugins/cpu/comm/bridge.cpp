// SPDX-License-Identifier: Apache-2.0
// bridge.cpp: connecting, exchanging, and the last words.
//
// Invariant: a wait ends within 20 ms of a failure on this host, and with the connection of the rank it waits for.
#include "bridge.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace tenon::cpu::comm {

using author::text;

namespace {

constexpr auto look = std::chrono::milliseconds(20);
// What the last words may take.
constexpr uint64_t farewell_ns = 200'000'000;
constexpr uint64_t longest_address = 256;
// How often a rank that waits for an address looks whether its mates have failed; each look may cost the store a connection.
constexpr uint64_t look_at_mates_ns = 1'000'000'000;
constexpr char well = '+', ill = '-';

// The first byte of a tag says what for.
constexpr uint64_t runs = uint64_t{1} << 56, last_words = uint64_t{2} << 56;

std::string key_of(uint32_t rank) { return text("address/", rank); }

// As the tables say them: a rank's number, and its bytes.
void append(std::string& to, uint32_t rank, std::span<const char> address) {
  const std::array<uint32_t, 2> head{rank, static_cast<uint32_t>(address.size())};
  to.append(reinterpret_cast<const char*>(head.data()), sizeof head).append(address.data(), address.size());
}

// What `said` holds for `rank`; empty when it holds nothing.
std::string_view address_for(uint32_t rank, std::string_view said) {
  std::array<uint32_t, 2> head{};
  while (said.size() >= sizeof head) {
    std::memcpy(head.data(), said.data(), sizeof head);
    said.remove_prefix(sizeof head);
    if (head[0] == rank) return said.substr(0, head[1]);
    said.remove_prefix(std::min<size_t>(head[1], said.size()));
  }
  return {};
}

}  // namespace

Result<const between::Engine*> Bridge::find_engine() {
  const Result<void*> found = system::symbol_beside(between::library, between::symbol);
  if (!found.ok()) {
    return Status(TN_UNSUPPORTED,
                  text("a communicator between hosts needs ", between::library, " beside the cpu plugin (",
                       found.message(), "): install libgloo-dev, build and install again"));
  }
  const auto* engine = reinterpret_cast<between::Entry>(*found)(between::version);
  if (engine != nullptr) return engine;
  return Status(TN_UNSUPPORTED, text(between::library,
                                     " is of another version than the cpu plugin: install both "
                                     "from one build"));
}

Bridge::Bridge(Member& member, Hosts hosts, const between::Engine& engine, Building building)
    : member_(member),
      hosts_(std::move(hosts)),
      engine_(engine),
      sent_(member.size()),
      received_(member.size()),
      heard_(member.size()),
      building_(building) {
  for (uint32_t q = 0; q < member.size(); ++q) {
    if (!member.is_here(q)) far_.push_back(q);
  }
}

Bridge::~Bridge() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (link_ == nullptr) return;
  if (member_.failed()) shut();
  engine_.close(link_);
  for (between::Transfer* transfer : hearing_) engine_.release(transfer);
  engine_.destroy(link_);
}

Result<std::unique_ptr<Bridge>> Bridge::build(Member& member, Hosts hosts, const Notices& notices,
                                              const std::string& interface, const system::Fd& memory,
                                              uint64_t deadline) {
  const auto found = find_engine();
  const Status able = found.ok() ? system::reserve(memory, member.segment().layout().far_bytes)
                                 : Status(Error(found.error()));
  if (!able.ok()) {
    (void)notices.post(key_of(member.rank()), ill + std::string(able.message()));
    return member.fail(able.code(), std::string(able.message()));
  }
  std::unique_ptr<Bridge> made(new Bridge(member, std::move(hosts), **found, {&notices, deadline}));
  if (const Status done = made->connect(interface); !done.ok()) return made->fail(done);
  made->enter(Phase::greeting);
  TN_TRY(made->greet());
  TN_TRY(member.step());
  made->enter(Phase::standing);
  return made;
}

void Bridge::enter(Phase phase) noexcept {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

Status Bridge::fail(const Status& why) {
  return member_.failed() ? member_.failure() : member_.fail(why.code(), std::string(why.message()));
}

// A word to and from each, so that either all ranks stand or none.
Status Bridge::greet() {
  const std::byte hello{};
  std::vector<std::byte> answers(member_.size());
  std::vector<Leaving> leaving;
  std::vector<Coming> coming;
  for (const uint32_t q : far_) {
    leaving.push_back({q, &hello, 1});
    coming.push_back({q, &answers[q], 1});
  }
  return exchange(leaving, coming);
}

Status Bridge::connect(const std::string& interface) {
  const Notices& notices = *building_.notices;
  if (interface.empty() && !hosts_.one_network()) {
    const Status unknown(TN_INVALID,
                         "ranks are on several machines: say over which interface they reach each other, as "
                         "option 'interface' of plugin 'cpu': a name like eth0, or this machine's address");
    (void)notices.post(key_of(member_.rank()), ill + std::string(unknown.message()));
    return Status(Error(unknown.error()));
  }
  const auto listening = listen(interface.empty() ? "127.0.0.1" : interface);
  TN_TRY(notices.post(key_of(member_.rank()),
                      listening.ok() ? well + *listening : ill + std::string(listening.message())));
  if (!listening.ok()) return Status(Error(listening.error()));
  watcher_ = std::thread([this] { watch(); });
  for (const uint32_t q : far_) TN_TRY(connect_to(q));
  return hear_last_words();
}

// What the ranks on other hosts must know to connect to this one.
Result<std::string> Bridge::listen(const std::string& interface) {
  const uint64_t now = driver::now_ns(), left = building_.deadline > now ? building_.deadline - now : 0;
  tn_error error = no_error();
  const auto in_words = [&](int32_t code) {
    const Status why = status_of(code, error);
    return Status(
        code, text("no connections over '", interface, "': ", why.message(),
                   ": name an interface or address of this machine as option 'interface' of plugin 'cpu'"));
  };
  int32_t code = engine_.open(interface.c_str(), member_.rank(), member_.size(), left, &link_, &error);
  if (code != TN_OK) return in_words(code);
  std::string all;
  for (const uint32_t q : far_) {
    std::array<char, longest_address> address{};
    uint64_t bytes = 0;
    code = engine_.listen(link_, q, address.data(), address.size(), &bytes, &error);
    if (code != TN_OK) return in_words(code);
    append(all, q, {address.data(), bytes});
  }
  return all;
}

// As long as the mates have not failed.
Result<std::string> Bridge::address_said_by(uint32_t rank) {
  for (;;) {
    const uint64_t until = std::min(building_.deadline, driver::deadline_after(look_at_mates_ns));
    auto said = building_.notices->read(key_of(rank), until);
    if (said.code() != TN_TIMEOUT || until == building_.deadline) return said;
    if (member_.failed()) return member_.failure();
  }
}

Status Bridge::connect_to(uint32_t rank) {
  const auto said = address_said_by(rank);
  if (!said.ok()) {
    return Status(said.code(),
                  text(member_.in_words(rank), " did not say how it is reached: ", said.message()));
  }
  if (said->empty() || said->front() != well)
    return Status(TN_PEER_LOST,
                  text(member_.in_words(rank), " cannot be reached: ", said->substr(said->empty() ? 0 : 1)));
  const std::string_view address = address_for(member_.rank(), std::string_view(*said).substr(1));
  tn_error error = no_error();
  const Status connected =
      status_of(engine_.connect(link_, rank, address.data(), address.size(), &error), error);
  if (connected.ok()) return {};
  if (driver::now_ns() >= building_.deadline)
    return Status(
        TN_TIMEOUT,
        text(member_.in_words(rank), " said how it is reached, and no connection came about within ",
             member_.timeout() / 1'000'000,
             " ms: look what holds it or the network up, and whether all hosts name interfaces "
             "of one network"));
  return Status(connected.code(), text("no connection to ", member_.in_words(rank), ": ", connected.message(),
                                       ": do all hosts name interfaces of one network?"));
}

Status Bridge::hear_last_words() {
  for (const uint32_t q : far_) {
    tn_error error = no_error();
    between::Transfer* transfer = nullptr;
    TN_TRY(status_of(engine_.receive(link_, q, last_words, &heard_[q], sizeof(LastWords), &transfer, &error),
                     error));
    hearing_.push_back(transfer);
  }
  return {};
}

void Bridge::watch() {
  driver::name_thread("tenon-between");
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, look);
    const Phase phase = phase_;
    const bool gives_up = phase != Phase::standing && building_.notices->cancelled();
    lock.unlock();
    if (gives_up) give_up();
    if (phase == Phase::connecting) {
      look_after_connecting();
    } else {
      engine_.interrupt(link_);
      if (member_.failed()) shut();
    }
    lock.lock();
  }
}

void Bridge::look_after_connecting() noexcept {
  if (member_.failed() || driver::now_ns() >= building_.deadline) engine_.stop(link_);
}

void Bridge::give_up() noexcept {
  try {
    (void)member_.fail(TN_ABORTED, text("rank ", member_.rank(), " gave up joining"));
  } catch (const std::bad_alloc&) {
    (void)member_.fail(TN_ABORTED, {});
  }
}

void Bridge::shut() noexcept {
  const std::lock_guard lock(shutting_);
  if (std::exchange(shut_, true)) return;
  if (member_.failed()) say_last_words();
  engine_.close(link_);
}

void Bridge::say_last_words() noexcept {
  const Failure& failure = member_.segment().header().failure;
  LastWords last{};
  std::memcpy(last.words, failure.words, sizeof last.words);
  last.code = static_cast<int32_t>(failure.code.load());
  last.mark = LastWords::said;
  std::array<between::Transfer*, Segment::most_ranks> under_way{};
  tn_error error = no_error();
  for (const uint32_t q : far_)
    (void)engine_.send(link_, q, last_words, &last, sizeof last, &under_way[q], &error);
  const uint64_t deadline = driver::deadline_after(farewell_ns);
  for (between::Transfer* transfer : under_way) {
    if (transfer == nullptr) continue;
    int32_t code = TN_BUSY;
    for (uint64_t now = driver::now_ns(); code == TN_BUSY && now < deadline; now = driver::now_ns())
      code = engine_.wait(transfer, deadline - now, &error);
  }
  engine_.close(link_);
  for (between::Transfer* transfer : under_way) {
    if (transfer != nullptr) engine_.release(transfer);
  }
}

std::string Bridge::doing_in_words() const {
  return phase_ == Phase::standing ? member_.doing_in_words() : "the communicator's creation";
}

Status Bridge::lost(uint32_t rank, const std::string& why) {
  if (member_.failed()) return member_.failure();
  const LastWords& last = heard_[rank];
  if (last.mark == LastWords::said)
    return member_.fail(last.code, std::string(last.words, strnlen(last.words, sizeof last.words)));
  return member_.fail(TN_PEER_LOST,
                      text(member_.in_words(rank), " has ended, or destroyed its communicator, while rank ",
                           member_.rank(), " waited for it in ", doing_in_words(), " (", why,
                           "): make a communicator of those who are left"));
}

// Who neither takes nor sends a message may itself wait for another, and that one for this rank.
Status Bridge::too_late(uint32_t rank, bool sends) {
  if (member_.in_messages()) {
    return member_.fail(TN_TIMEOUT, text("rank ", member_.rank(), " waited ", member_.timeout() / 1'000'000,
                                         " ms in ", member_.doing_in_words(), " for ", member_.in_words(rank),
                                         sends ? " to receive" : " to send",
                                         ": look what holds it or the network up, and whether it waits for "
                                         "another itself; the flight records tell who "
                                         "waits for whom (`tenon trace --flight`)"));
  }
  return member_.fail(
      TN_TIMEOUT, text(member_.in_words(rank), sends ? " took" : " sent", " nothing; rank ", member_.rank(),
                       " waited ", member_.timeout() / 1'000'000, " ms for it in ", doing_in_words(),
                       ": look what holds it or the network up, or give more time"));
}

Status Bridge::begin(Transfers& all, std::span<const Leaving> leaving, std::span<const Coming> coming) {
  for (const Coming& in : coming)
    TN_TRY(all.receive(in.rank, runs | received_[in.rank].runs++, in.to, in.bytes));
  for (const Leaving& out : leaving)
    TN_TRY(all.send(out.rank, runs | sent_[out.rank].runs++, out.from, out.bytes));
  return {};
}

Status Bridge::exchange(std::span<const Leaving> leaving, std::span<const Coming> coming) {
  Transfers all(*this);
  TN_TRY(begin(all, leaving, coming));
  return all.finish();
}

Status Bridge::Transfers::finish() {
  for (size_t i = 0; i < open_.size();) i += TN_TRY(look(i))
  ? 1 : 0;
  return {};
}

Bridge::Transfers::~Transfers() {
  if (std::any_of(open_.begin(), open_.end(), [](const Open& open) { return open.transfer != nullptr; }))
    bridge_.shut();
  for (size_t i = 0; i < open_.size(); ++i) drop(i);
}

void Bridge::Transfers::drop(size_t i) noexcept {
  if (between::Transfer* transfer = std::exchange(open_[i].transfer, nullptr))
    bridge_.engine_.release(transfer);
}

Status Bridge::Transfers::begun(int32_t code, const tn_error& error) {
  if (code == TN_OK) [[likely]]
    return {};
  const Status said = status_of(code, error);
  // Not the other's fault.
  if (code == TN_NO_MEMORY) return bridge_.member_.fail(code, std::string(said.message()));
  return bridge_.lost(open_.back().rank, std::string(said.message()));
}

Status Bridge::Transfers::send(uint32_t rank, uint64_t tag, const std::byte* from, uint64_t bytes) {
  tn_error error = no_error();
  open_.push_back({nullptr, rank, true});
  return begun(bridge_.engine_.send(bridge_.link_, rank, tag, from, bytes, &open_.back().transfer, &error),
               error);
}

Status Bridge::Transfers::receive(uint32_t rank, uint64_t tag, std::byte* to, uint64_t bytes) {
  tn_error error = no_error();
  open_.push_back({nullptr, rank, false});
  return begun(bridge_.engine_.receive(bridge_.link_, rank, tag, to, bytes, &open_.back().transfer, &error),
               error);
}

Result<bool> Bridge::Transfers::look(size_t i) {
  if (TN_TRY(glance(i))) return true;
  if (is_late()) return too_late(i);
  return false;
}

Status Bridge::Transfers::too_late(size_t i) { return bridge_.too_late(open_[i].rank, open_[i].sends); }

Result<bool> Bridge::Transfers::glance(size_t i) {
  const Open& open = open_[i];
  if (open.transfer == nullptr) return true;
  Member& member = bridge_.member_;
  if (deadline_ == 0) {
    deadline_ = driver::deadline_after(member.timeout());
    if (bridge_.phase_ != Phase::standing) deadline_ = std::min(deadline_, bridge_.building_.deadline);
  }
  tn_error error = no_error();
  const int32_t code = bridge_.engine_.wait(open.transfer, driver::never, &error);
  if (code == TN_OK) {
    drop(i);
    deadline_ = 0;
    return true;
  }
  if (code != TN_BUSY) return bridge_.lost(open.rank, std::string(status_of(code, error).message()));
  if (!member.carry_on()) return member.failure();
  return false;
}

}  // namespace tenon::cpu::comm
