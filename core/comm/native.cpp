// SPDX-License-Identifier: Apache-2.0
// native.cpp: joining, submitting and leaving by the plugin's table.
//
// The plugin's id travels through the store: rank 0 makes it, or says why it cannot, so that nobody waits for it in vain.
// Invariant: what a plugin's communicator tells as its end is told as the stream's failure, like any other.
#include "comm/native.hpp"

#include "base/host.hpp"
#include "base/text.hpp"
#include "comm/grouping.hpp"
#include "comm/roll_call.hpp"

#include <algorithm>
#include <random>

namespace tenon::comm {
namespace {

constexpr char well = '+', ill = '-';
constexpr size_t run_letters = 12;

// Which run it is that meets on this store, in a word that no other has. Whoever makes the first communicator there draws it.
Result<std::string> run_of(Store store, Timeout timeout) {
  constexpr const char* place = "comm/run";
  std::random_device device;
  std::string drawn;
  while (drawn.size() < run_letters) drawn += "0123456789abcdef"[device() % 16];
  Status told = store.set(place, drawn, timeout);
  if (told.ok()) return drawn;
  if (told.code() != TN_INVALID) return told;
  auto first = TN_TRY(store.get(place, timeout));
  if (first.size() == run_letters) return first;
  return Status(TN_INVALID, "the store " + store.address() + " has " + base::quoted(first) + " as '" + place +
                                "', which is no run of this version: each run needs a new store");
}

}  // namespace

uint64_t nanoseconds(Timeout timeout) noexcept {
  if (timeout == forever) return TN_TIMEOUT_NEVER;
  return timeout.count() < 0 ? 0 : static_cast<uint64_t>(timeout.count());
}

bool ends_communicators(int32_t code) noexcept {
  return code == TN_ABORTED || code == TN_PEER_LOST || code == TN_TIMEOUT || code == TN_MISMATCH ||
         code == TN_NO_MEMORY;
}

Status destroyed(const std::string& name) {
  return Status(TN_INVALID, "communicator '" + name + "' was destroyed: make a new one");
}

Result<std::shared_ptr<detail::CommState>> Native::join(const std::shared_ptr<detail::DeviceState>& device,
                                                        const Store& store, uint32_t rank, uint32_t size,
                                                        CommOptions options) {
  auto made = std::make_shared<Native>(device, store);
  made->self_ = made;
  made->api_ = device->plugin->comm;
  made->rank = rank;
  made->size = size;
  made->options = std::move(options);
  auto claimed = claim_next(store, made->claimant());
  if (!claimed.ok()) return of_store(made->options, "its creation", Status(claimed.error()));
  made->which_.serial = claimed->serial;
  made->key = std::move(claimed->key);
  made->doubt_ = std::move(claimed->doubt);
  TN_TRY(made->enter());
  return std::shared_ptr<CommState>(std::move(made));
}

Native::~Native() {
  static_cast<void>(health());  // which writes down what was done last, should it have ended
  if (relay_) relay_->leave();  // its thread asks for it until then
  tn_comm* last = handle_.exchange(nullptr);
  if (last == nullptr) return;
  tn_error error = no_error();
  const Status left = status_of(api_->destroy(last, nanoseconds(options.timeout), &error), error);
  if (!left.ok())
    device->log(LogLevel::warn, "communicator '" + options.name + "': " + std::string(left.message()));
}

Result<std::string> Native::make_id() {
  uint64_t bytes = 0;
  tn_error error = no_error();
  TN_TRY(status_of(api_->id_bytes(device->handle, &bytes, &error), error));
  std::string id(bytes, '\0');
  TN_TRY(status_of(api_->make_id(device->handle, id.data(), bytes, &error), error));
  return id;
}

// The id of this communicator: made by rank 0, carried by the store behind the run's word.
Result<std::string> Native::agree_on_id() {
  const std::string place = key + "/id";
  if (rank == 0) {
    which_.run = TN_TRY(run_of(store, options.timeout));
    auto id = make_id();
    const std::string said = id.ok() ? well + which_.run + *id : ill + std::string(id.message());
    if (Status told = store.set(place, said, options.timeout); id.ok() && !told.ok()) return told;
    return id;
  }
  auto heard = store.state()->await(place, base::Deadline(options.timeout));
  if (!heard.ok()) return std::move(heard).failure();
  const std::optional<std::string>& said = *heard;
  if (!said) {
    const uint32_t maker = 0;
    return did_not_come(options, std::span(&maker, 1),
                        {"its creation", "all ranks create it, by one name and on one store"});
  }
  if (said->size() <= run_letters || said->front() != well) {
    return Status(TN_PEER_LOST, "communicator '" + options.name + "': rank 0 could not make it: " +
                                    base::printable(std::string_view(*said).substr(said->empty() ? 0 : 1)));
  }
  which_.run = said->substr(1, run_letters);
  return said->substr(1 + run_letters);
}

Claimant Native::claimant() const {
  return {.options = options,
          .rank = rank,
          .size = size,
          .who = "process " + std::to_string(base::process_id()) + " on host " + here(*device, "").host};
}

// Once its number is taken. Where somebody did not come, or was lost, those who are left will not meet here: they are told, also
// those of them who come later.
Status Native::enter() {
  const Result<std::string> id = agree_on_id();
  Status made = id.ok() ? create(*id) : of_store(options, "its creation", Status(id.error()));
  const bool in_vain = made.code() == TN_TIMEOUT || (made.code() == TN_PEER_LOST && id.ok());
  if (!in_vain) return made;
  if (std::string twice = claimed_twice(store, key); !twice.empty())
    return Status(TN_INVALID, std::move(twice));
  call_off(store, key);
  if (made.code() == TN_TIMEOUT) return reason(std::move(made));
  return made;
}

// What else may be the reason that others did not come.
Status Native::reason(Status why) const {
  Error error = why.error();
  error.message += doubt_;
  if (const std::string& listens = store.state()->listens; !listens.empty())
    error.message += "; this process serves the store on " + listens + ": can the other hosts reach that?";
  return Status(std::move(error));
}

Status Native::create(const std::string& id) {
  const tn_comm_options asked{.size = sizeof(tn_comm_options),
                              .flags = options.deterministic ? TN_COMM_DETERMINISTIC : 0,
                              .timeout_ns = nanoseconds(options.timeout),
                              .store = &store.table(),
                              .name = options.name.c_str(),
                              .next = nullptr};
  tn_comm* handle = nullptr;
  tn_error error = no_error();
  TN_TRY(status_of(api_->create(device->handle, rank, size, id.data(), id.size(), &asked, &handle, &error),
                   error));
  handle_.store(handle);
  limits.size = sizeof(tn_comm_limits);
  TN_TRY(status_of(api_->limits(handle, &limits, &error), error));
  if (size == 1) return {};
  flight_.count_messages(size);
  relay_.emplace(*this, flight_, [this] { static_cast<void>(give_up()); });
  return {};
}

Result<tn_comm*> Native::living() const {
  tn_comm* alive = handle_.load();
  if (alive != nullptr) return alive;
  return destroyed(options.name);
}

Status Native::submit(Stream& stream, std::span<const CommOp> group, std::optional<Route>) {
  tn_comm* handle = TN_TRY(living());
  detail::StreamState& line = *stream.state();
  if (!line.healthy()) return detail::stream_poison(line);
  static_assert(sizeof(CommOp) == sizeof(tn_comm_op));
  line.touch();
  attend(runtime::timeline_of(line));
  flight_.note(group);
  tn_error error = no_error();
  const int32_t code = api_->submit(handle, line.handle, reinterpret_cast<const tn_comm_op*>(group.data()),
                                    static_cast<uint32_t>(group.size()), &error);
  if (code == TN_OK) {
    flight_.accepted();
    return {};
  }
  Status failed = named(detail::stream_failure(line, code, error));
  if (ended(failed.error())) return failed;
  flight_.refused();
  if (relay_) relay_->inquest().refused();
  return failed;
}

// Before a group is noted that goes on `line`.
void Native::attend(runtime::Timeline& line) {
  std::weak_ptr<runtime::Witness> last;
  const bool first = runtime::call_witness(line, self_, &last);
  if (!relay_) return;
  if (first) relay_->follow(line);
  relay_->inquest().attend(line);
  if (last.expired()) return;
  const auto other = std::dynamic_pointer_cast<Native>(last.lock());
  if (other && other->relay_) relay_->inquest().comes_behind(other->relay_->inquest().membership, line);
}

// Whether this communicator has ended, as `failure` of a stream may say; then what was done last is written down.
bool Native::ended(const Error& failure) noexcept {
  if (!ends_communicators(failure.code)) return false;
  tn_error error = no_error();
  int32_t code = TN_OK;
  {
    const std::shared_lock lock(leaving_);
    tn_comm* handle = handle_.load();
    if (handle != nullptr) code = api_->health(handle, &error);
  }
  if (code == TN_OK) return false;
  flight_.write(*this, which_, named(status_of(code, error)).error());
  return true;
}

// An abort is told by the rank that ends because of it, too; the store knows which was first.
bool Native::settled(Error& failure) noexcept {
  if (ends_communicators(failure.code) && relay_ && !relay_->settled(failure)) return false;
  ended(failure);
  return true;
}

Result<std::shared_ptr<detail::CommState>> Native::part(std::span<const uint32_t> members,
                                                        const std::string& called) {
  auto made = std::make_shared<Native>(device, store);
  made->self_ = made;
  made->api_ = api_;
  made->rank = static_cast<uint32_t>(std::find(members.begin(), members.end(), rank) - members.begin());
  made->size = static_cast<uint32_t>(members.size());
  made->options = options;
  made->options.name += called;
  made->which_.serial = which_.serial;
  made->key = key + called;
  if (Status taken = claim(store, made->key, made->claimant()); !taken.ok())
    return of_store(made->options, "its creation", std::move(taken));
  TN_TRY(made->enter());
  return std::shared_ptr<CommState>(std::move(made));
}

Status Native::asked(int32_t (*ask)(tn_comm*, tn_error*)) {
  const std::shared_lock lock(leaving_);
  tn_comm* handle = TN_TRY(living());
  tn_error error = no_error();
  return status_of(ask(handle, &error), error);
}

Status Native::named(Status said) const {
  if (!ends_communicators(said.code()) || !relay_) return said;
  Error failure = said.error();
  relay_->name(failure);
  return Status(std::move(failure));
}

// What has ended already has another cause. The others are told first, so whoever hears of the end finds out who began it.
Status Native::abort() {
  if (relay_ && asked(api_->health).ok()) relay_->tell();
  return give_up();
}

// Whoever gives up may submit nothing more, and whoever asks may have been idle: both leave their record here.
Status Native::give_up() {
  Status said = asked(api_->abort);
  if (said.ok()) ended(Error{.code = TN_ABORTED});
  return said;
}
Status Native::health() {
  Status said = named(asked(api_->health));
  if (!said.ok()) ended(said.error());
  return said;
}

// What it ended with is asked for first: the plugin's `destroy` is well when there is nothing left to see out.
Status Native::destroy(Timeout timeout) {
  static_cast<void>(health());
  if (relay_) relay_->leave();
  tn_comm* handle = nullptr;
  {
    const std::lock_guard alone(leaving_);
    handle = handle_.exchange(nullptr);
  }
  if (handle == nullptr) return destroyed(options.name);
  tn_error error = no_error();
  Status left = status_of(api_->destroy(handle, nanoseconds(timeout), &error), error);
  if (ends_communicators(left.code())) flight_.write(*this, which_, left.error());
  return left;
}

}  // namespace tenon::comm
