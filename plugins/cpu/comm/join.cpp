// SPDX-License-Identifier: Apache-2.0
// join.cpp: see join.hpp.
//
// Invariant: a rank that fails after it took its slot says so in the segment, so nobody waits its timeout out for it.
#include "join.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

namespace tenon::cpu::comm {

using author::text;

namespace {

// For the store to say whether ranks are elsewhere: at first what is next to nothing, then what any network answers in.
constexpr uint64_t first_patience_ns = 5'000'000, longest_patience_ns = 250'000'000;
static_assert(sizeof(Header) <= system::page);

// The header of a segment whose size is not known yet.
class HeaderPage {
 public:
  static Result<HeaderPage> map(const system::Fd& memory) {
    std::byte* at = system::map(memory, system::page);
    if (at == nullptr) return Status(TN_NO_MEMORY, "no address range for a page of shared memory");
    return HeaderPage(at);
  }
  HeaderPage(HeaderPage&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  ~HeaderPage() {
    if (at_ != nullptr) system::unmap(at_, system::page);
  }
  Header* operator->() const noexcept { return reinterpret_cast<Header*>(at_); }

 private:
  explicit HeaderPage(std::byte* at) noexcept : at_(at) {}
  std::byte* at_;
};

bool cancelled(const Ticket& ticket) noexcept {
  return ticket.cancelled != nullptr && ticket.cancelled->load();
}

// A rank posts it that finds the id to be of another host.
constexpr const char* elsewhere = "elsewhere";

Result<system::Fd> open_memory(const Id& id) {
  system::Fd memory = TN_TRY(system::open_in(id.process, id.descriptor));
  if (system::inode_of(memory) != id.inode) {
    return Status(TN_PEER_LOST,
                  text("process ", id.process,
                       " has given up the memory of this id: make a new id for each communicator"));
  }
  return memory;
}

// Whoever comes first gives the segment its size and its pages.
Status build(const system::Fd& memory, const HeaderPage& header, const Ticket& ticket) {
  uint32_t state = Header::empty;
  if (!header->state.compare_exchange_strong(state, Header::building)) return {};
  header->first.store(ticket.rank);
  header->builder.store(system::process());
  Status reserved = system::reserve(memory, Layout(ticket.size).bytes);
  header->size.store(ticket.size);
  header->state.store(reserved.ok() ? Header::ready : Header::refused);
  system::wake_all(header->state);
  return reserved;
}

// Two numbers of ranks cannot both be right, so nobody's communicator stands.
Status check_size(const HeaderPage& header, const Ticket& ticket) {
  const uint32_t size = header->size.load();
  if (size == ticket.size) return {};
  const std::string words =
      text("rank ", ticket.rank, " was told of ", ticket.size, " ranks, rank ", header->first.load(),
           ", which came first, of ", size, ": tell all ranks the same number");
  (void)header->failure.set(TN_MISMATCH, words);
  system::wake_all(header->arrived);
  return Status(TN_MISMATCH, text("communicator '", ticket.name, "', rank ", ticket.rank, ": ", words));
}

// Whoever makes the memory; 0: it has only begun to.
std::string builder_in_words(const HeaderPage& header) {
  const int32_t process = header->builder.load();
  if (process == 0) return "a rank that came first";
  return text("rank ", header->first.load(), " (process ", process, "), which came first,");
}

// Why not to wait on for the memory.
Status look_for_builder(const HeaderPage& header, const Ticket& ticket, uint64_t deadline) {
  const int32_t process = header->builder.load();
  const bool ended = process != 0 && process != system::process() &&
                     system::has_ended(system::watch(process), process) &&
                     header->state.load() == Header::building;
  if (!ended && !cancelled(ticket) && driver::now_ns() < deadline) return {};
  const std::string own = text("communicator '", ticket.name, "', rank ", ticket.rank, ": ");
  if (ended)
    return Status(TN_PEER_LOST,
                  text(own, builder_in_words(header), " ended while it made the shared memory"));
  if (cancelled(ticket)) return Status(TN_ABORTED, text(own, "gave up joining"));
  return Status(TN_TIMEOUT, text(own, builder_in_words(header), " has not finished the shared memory after ",
                                 ticket.timeout_ns / 1'000'000, " ms: look what holds it up"));
}

Status await_built(const HeaderPage& header, const Ticket& ticket, uint64_t deadline) {
  uint32_t state = 0;
  while ((state = header->state.load()) == Header::building) {
    TN_TRY(look_for_builder(header, ticket, deadline));
    system::sleep_on(header->state, Header::building, std::min(deadline, driver::now_ns() + look_ns));
  }
  if (state == Header::refused) {
    return Status(TN_NO_MEMORY,
                  text("communicator '", ticket.name, "', rank ", ticket.rank, ": ", builder_in_words(header),
                       " got no room for ", Layout(ticket.size).bytes, " bytes of shared memory: free some"));
  }
  return check_size(header, ticket);
}

// Those who have no slot, or have one and did not go on from there.
enum class Stage { arrival, settling };
std::string absent(Member& member, Stage stage) {
  std::string ranks;
  for (const uint32_t q : member.mates()) {
    const Slot& slot = member.slot(q);
    const bool there = stage == Stage::arrival ? slot.process.load() != 0 : slot.settled.load() != 0;
    if (!there) ranks += text(ranks.empty() ? "" : ", ", q);
  }
  return ranks.empty() ? "none" : ranks;
}

// Waits until `count` is the number of mates. TN_BUSY when `notices` say that some ranks are not among them.
Status await_all(Member& member, Stage stage, const Ticket& ticket, uint64_t deadline,
                 const Notices* notices = nullptr) {
  Header& header = member.segment().header();
  const bool met = stage == Stage::settling;
  std::atomic<uint32_t>& count = met ? header.settled : header.arrived;
  uint64_t patience = first_patience_ns, ask_at = driver::now_ns() + look_ns;
  for (;;) {
    const uint32_t now_there = count.load();
    if (member.failed()) return member.failure();
    if (now_there == member.mates().size()) return {};
    if (cancelled(ticket)) return member.fail(TN_ABORTED, text("rank ", member.rank(), " gave up joining"));
    for (const uint32_t q : member.mates()) {
      if (met && q != member.rank() && member.lost(q) && count.load() != member.mates().size())
        return member.fail(TN_PEER_LOST, text(member.in_words(q), " ended while the communicator was made"));
    }
    const uint64_t now = driver::now_ns();
    if (now >= deadline) {
      return member.fail(
          TN_TIMEOUT,
          text(now_there, " of ", member.mates().size(), met ? " ranks were ready" : " ranks came",
               " within ", ticket.timeout_ns / 1'000'000, " ms; missing: ", absent(member, stage),
               met ? ", which came and did not go on: look what holds them up" : ": were they started?"));
    }
    if (notices != nullptr && now >= ask_at) {
      if (notices->has(elsewhere, patience)) return Status(TN_BUSY, "some ranks are on other hosts");
      patience = std::min(2 * patience, longest_patience_ns);
      ask_at = driver::now_ns() + patience;
    }
    system::sleep_on(count, now_there, std::min(deadline, now + look_ns));
  }
}

// Whether this process can read the memory of rank `q`'s: what all of them have mapped must be there.
bool reads(Member& member, uint32_t q) {
  Header& own = member.segment().header();
  const uint64_t nonce = own.nonce.load();
  const auto offset =
      static_cast<uint64_t>(reinterpret_cast<const std::byte*>(&own.nonce) - member.segment().base());
  std::array<std::byte, sizeof nonce> found{};
  return system::read_from(member.process_of(q), member.slot(q).base + offset, found) &&
         std::memcmp(found.data(), &nonce, sizeof nonce) == 0;
}

// How many times as long as a copy it takes to read the memory of rank `q`'s process. A sum takes two passes so, and three through the
// stages; where those fall out of the caches each costs twice as much, and the system's work for each page does not.
constexpr uint64_t quick = 2, quick_past_caches = 4, never_quick = UINT64_MAX;
uint64_t cost_of_reading(Member& member, uint32_t q) {
  constexpr uint64_t bytes = 64 << 10;
  constexpr int tries = 8;
  const std::byte* const theirs = member.segment().stage(q, 0, member.segment().layout().near);
  const auto address = member.slot(q).base + static_cast<uint64_t>(theirs - member.segment().base());
  std::vector<std::byte> room(bytes);
  uint64_t read = UINT64_MAX, copied = UINT64_MAX;
  for (int i = 0; i < tries; ++i) {
    const uint64_t begin = driver::now_ns();
    std::memcpy(room.data(), theirs, bytes);
    const uint64_t between = driver::now_ns();
    if (!system::read_from(member.process_of(q), address, room)) return never_quick;
    copied = std::min(copied, between - begin);
    read = std::min(read, driver::now_ns() - between);
  }
  return (read + copied - 1) / std::max<uint64_t>(copied, 1);
}

// Tries whether this process can open what the others will want to lend, and read what they cannot.
void try_doors(Member& member, uint64_t inode, Where::Reads wanted) {
  const bool may_read = wanted != Where::Reads::never;
  if (!may_read) member.segment().header().unread.store(1);
  for (const uint32_t q : member.mates()) {
    if (member.same_process(q)) continue;
    const auto door = system::open_in(member.process_of(q), member.slot(q).descriptor);
    if (!door.ok() || system::inode_of(*door) != inode) member.segment().header().closed.store(1);
    if (may_read && !reads(member, q)) member.segment().header().unread.store(1);
    if (wanted == Where::Reads::large) member.segment().header().slow.store(1);
    if (wanted != Where::Reads::where_quick) continue;
    const uint64_t cost = cost_of_reading(member, q);
    if (cost > quick) member.segment().header().slow.store(1);
    if (cost > quick_past_caches) member.segment().header().slower.store(1);
  }
}

}  // namespace

void Segments::stand_at(Where where) {
  const std::lock_guard lock(mutex_);
  where_ = std::move(where);
}

Where Segments::where() const {
  const std::lock_guard lock(mutex_);
  return where_;
}

Result<Id> Segments::make_id() {
  Id id;
  system::Fd memory = TN_TRY(system::make_memory("tenon communicator"));
  TN_TRY(system::reserve(memory, system::page));
  const HeaderPage header = TN_TRY(HeaderPage::map(memory));
  id.nonce = system::random();
  header->nonce.store(id.nonce);
  id.place = system::here(where().host);
  id.inode = system::inode_of(memory);
  id.process = system::process();
  id.descriptor = memory.get();
  const std::lock_guard lock(mutex_);
  made_.push_back({.nonce = id.nonce, .memory = std::move(memory)});
  return id;
}

void Segments::let_go(const Id& id, uint64_t at) {
  const std::lock_guard lock(mutex_);
  const uint64_t now = driver::now_ns();
  std::erase_if(made_, [&](Made& made) {
    if (made.nonce == id.nonce) made.until = at;
    return made.until <= now;
  });
}

Result<std::shared_ptr<Segment>> Segments::segment_of(const system::Fd& memory, uint32_t size) {
  const std::lock_guard lock(mutex_);
  std::erase_if(segments_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Segment>& known = segments_[system::inode_of(memory)];
  if (auto segment = known.lock()) return segment;
  auto segment = TN_TRY(Segment::map(memory, size));
  known = segment;
  return segment;
}

// A process is a rank in each of its communicators, and several where its threads are: the most of them in one counts.
size_t Segments::ranks_on(const system::Processors& processors) {
  const std::lock_guard lock(mutex_);
  std::map<int32_t, size_t> most;
  for (const auto& [inode, known] : segments_) {
    const auto segment = known.lock();
    if (segment == nullptr || segment->header().failure.code.load() != 0) continue;
    std::map<int32_t, size_t> here;
    for (uint32_t q = 0; q < segment->size(); ++q) {
      const Slot& slot = segment->slot(q);
      if (slot.settled.load() == 0 || slot.gone.load() != 0) continue;
      const bool shares = std::inner_product(processors.begin(), processors.end(), slot.processors.begin(),
                                             false, std::logical_or<>(), std::bit_and<>());
      if (shares) ++here[slot.process.load()];
    }
    for (const auto& [process, ranks] : here) most[process] = std::max(most[process], ranks);
  }
  size_t ranks = 0;
  for (const auto& [process, in_one] : most) ranks += in_one;
  return ranks;
}

// One join under way.
struct Segments::Attempt {
  const Ticket& ticket;
  const uint64_t deadline;
  const Notices notices;
  const Where where;
  const system::Place place;
  Id id = ticket.id;             // of the segment on this host
  std::optional<Hosts> hosts{};  // once some are known to be elsewhere

  Status meet_hosts() {
    hosts = TN_TRY(Hosts::meet(notices, place, where, ticket.rank, ticket.size, deadline));
    return {};
  }
};

Result<std::unique_ptr<Member>> Segments::enter(const system::Fd& memory, const Attempt& attempt) {
  const Ticket& ticket = attempt.ticket;
  {
    const HeaderPage header = TN_TRY(HeaderPage::map(memory));
    if (header->nonce.load() != attempt.id.nonce)
      return Status(TN_PEER_LOST, "the memory behind this id belongs to something else: make a new id");
    TN_TRY(build(memory, header, ticket));
    TN_TRY(await_built(header, ticket, attempt.deadline));
  }
  auto segment = TN_TRY(segment_of(memory, ticket.size));
  auto member = std::make_unique<Member>(std::move(segment), ticket.rank, ticket.timeout_ns, ticket.name);
  TN_TRY(member->arrive(memory));
  return member;
}

// The segment on this host has the ticket's id, or one that the first rank here makes for the others.
Status Segments::find_id(Attempt& attempt) {
  const Id& told = attempt.ticket.id;
  if (told.place == attempt.place) return {};
  if (!attempt.notices) {
    return Status(
        TN_UNSUPPORTED,
        text("the id was made on another host, or in another space of process numbers (by process ",
             told.process, " there), and there is no store for ranks to tell where they are: give one"));
  }
  const Status said = attempt.notices.post(elsewhere, "");
  if (!said.ok() && said.code() != TN_INVALID) return Status(Error(said.error()));  // TN_INVALID: another did
  TN_TRY(attempt.meet_hosts());
  const uint32_t own = attempt.hosts->host_of(attempt.ticket.rank);
  const uint32_t first = attempt.hosts->ranks_of(own).front();
  const std::string key = text("segment/", first);
  Id& id = attempt.id;
  if (first == attempt.ticket.rank) {
    auto made = make_id();
    if (made.ok()) id = *made;
    TN_TRY(attempt.notices.post(key, {reinterpret_cast<const char*>(&id), made.ok() ? sizeof id : 0}));
    return made.ok() ? Status() : Status(Error(made.error()));
  }
  const std::string carried = TN_TRY(attempt.notices.read(key, attempt.deadline));
  if (carried.size() != sizeof id)
    return Status(TN_PEER_LOST, text("rank ", first, ", the first of this host, got no shared memory"));
  std::memcpy(static_cast<void*>(&id), carried.data(), sizeof id);
  return {};
}

// Waits for the ranks of this host, once it is known which those are.
Status Segments::await_mates(Attempt& attempt, Member& member) {
  if (!attempt.hosts) {
    const Notices* const notices = attempt.notices ? &attempt.notices : nullptr;
    Status all = await_all(member, Stage::arrival, attempt.ticket, attempt.deadline, notices);
    if (all.code() != TN_BUSY) return all;
    if (const Status met = attempt.meet_hosts(); !met.ok())
      return member.fail(met.code(), std::string(met.message()));
  }
  member.keep_to_mates(attempt.hosts->abroad(member.rank()));
  return await_all(member, Stage::arrival, attempt.ticket, attempt.deadline);
}

Result<Joined> Segments::join(const Ticket& ticket) {
  if (ticket.id.magic != Id::mark)
    return Status(TN_INVALID, "this is no id of the cpu plugin: carry what make_id wrote, byte for byte");
  const Where own = where();
  Attempt attempt{.ticket = ticket,
                  .deadline = driver::deadline_after(ticket.timeout_ns),
                  .notices = Notices(ticket.store, ticket.id.nonce, ticket.cancelled),
                  .where = own,
                  .place = system::here(own.host)};
  auto joined = join(attempt);
  // After a failure the id is kept for those who come late: they are told why, and not only that it is gone.
  let_go(attempt.id, joined.ok() ? 0 : attempt.deadline);
  return joined;
}

Result<Joined> Segments::join(Attempt& attempt) {
  if (attempt.ticket.size > Segment::most_ranks)
    return Status(TN_UNSUPPORTED, text("communicator '", attempt.ticket.name, "' of ", attempt.ticket.size,
                                       " ranks: the cpu plugin joins at most ", Segment::most_ranks,
                                       "; make groups, as a Hierarchy does"));
  TN_TRY(find_id(attempt));
  Joined out;
  // Until all have tried its door, and bridges have room.
  const system::Fd memory = TN_TRY(open_memory(attempt.id));
  out.member = TN_TRY(enter(memory, attempt));
  Member& member = *out.member;
  TN_TRY(await_mates(attempt, member));
  TN_TRY(member.meet());
  try_doors(member, attempt.id.inode, attempt.where.reads);
  member.settle();
  TN_TRY(await_all(member, Stage::settling, attempt.ticket, attempt.deadline));
  member.look_around(ranks_on(member.processors()));
  if (!attempt.hosts) return out;
  out.bridge = TN_TRY(Bridge::build(member, *std::move(attempt.hosts), attempt.notices,
                                    attempt.where.interface, memory, attempt.deadline));
  return out;
}

}  // namespace tenon::cpu::comm
