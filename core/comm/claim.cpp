// SPDX-License-Identifier: Apache-2.0
// claim.cpp: see claim.hpp. An entry is "SIZE WHO", under the key of its number.
#include "comm/claim.hpp"

#include <charconv>
#include <optional>

namespace tenon::comm {
namespace {

constexpr std::chrono::seconds last_answer(1);  // of the store, to who has failed already

// Who has a number, and of how many ranks.
struct Holder {
  uint32_t size = 0;
  std::string who{};
};

std::string place(const std::string& key, uint32_t rank) { return key + "/rank/" + std::to_string(rank); }

Result<std::optional<Holder>> holder(const Store& store, const std::string& key, uint32_t rank,
                                     const base::Deadline& deadline) {
  const auto said = TN_TRY(store.state()->look(place(key, rank), deadline));
  if (!said) return std::optional<Holder>();
  Holder out;
  const char* end = said->data() + said->size();
  const auto read = std::from_chars(said->data(), end, out.size);
  out.who.assign(read.ptr == end ? end : read.ptr + 1, end);
  return std::optional(std::move(out));
}

// Whether all numbers of a communicator of `size` are taken.
Result<bool> is_full(const Store& store, const std::string& key, uint32_t size,
                     const base::Deadline& deadline) {
  for (uint32_t q = 0; q < size; ++q) {
    if (!TN_TRY(holder(store, key, q, deadline))) return false;
  }
  return true;
}

// Whether it was given up, or is full without the claimant's number, which is one more than it has.
Result<bool> is_passed(const Store& store, const std::string& key, uint32_t rank,
                       const base::Deadline& deadline) {
  if (TN_TRY(store.state()->look(key + "/over", deadline))) return true;
  if (rank == 0) return false;
  const auto first = TN_TRY(holder(store, key, 0, deadline));
  return first && rank >= first->size ? is_full(store, key, first->size, deadline) : Result<bool>(false);
}

// True: it is the claimant's. False: it is somebody's already.
Result<bool> take(const Store& store, const std::string& key, const Claimant& claimant) {
  const std::string entry = std::to_string(claimant.size) + " " + claimant.who;
  Store writes = store;
  Status told = writes.set(place(key, claimant.rank), entry, claimant.options.timeout);
  if (told.ok()) return true;
  const base::Deadline deadline(claimant.options.timeout);
  if (told.code() == TN_INVALID && TN_TRY(holder(store, key, claimant.rank, deadline))) return false;
  return told;
}

std::string named(const Claimant& claimant) {
  return "communicator '" + claimant.options.name + "': rank " + std::to_string(claimant.rank) + " is ";
}

// The others wait in vain for the number that nobody has, and find the reason here.
Status refused(const Store& store, const std::string& key, const Claimant& claimant, const Holder& first) {
  std::string words = named(claimant) + first.who + " already, and " + claimant.who +
                      " asks to be it, too: give each rank its own number, and each run a new store";
  static_cast<void>(store.state()->set(key + "/twice", words, base::Deadline(claimant.options.timeout)));
  return Status(TN_INVALID, std::move(words));
}

}  // namespace

Result<Claim> claim_next(const Store& store, const Claimant& claimant) {
  const std::string& name = claimant.options.name;
  const base::Deadline deadline(claimant.options.timeout);
  Claim out{.serial = store.state()->made(name, claimant.rank)};
  for (;; ++out.serial) {
    out.key = "comm/" + name + "/" + std::to_string(out.serial);
    if (TN_TRY(is_passed(store, out.key, claimant.rank, deadline))) continue;
    if (TN_TRY(take(store, out.key, claimant))) break;
    const auto first = TN_TRY(holder(store, out.key, claimant.rank, deadline));
    if (!TN_TRY(is_full(store, out.key, first->size, deadline)))
      return refused(store, out.key, claimant, *first);
    out.doubt = "; rank " + std::to_string(claimant.rank) + " of the one of that name before is " +
                first->who +
                ": when that has not ended, give each rank its own number, and each run a new store";
  }
  store.state()->has_made(name, claimant.rank, out.serial + 1);
  return out;
}

Status claim(const Store& store, const std::string& key, const Claimant& claimant) {
  if (TN_TRY(take(store, key, claimant))) return {};
  const base::Deadline deadline(claimant.options.timeout);
  return refused(store, key, claimant, *TN_TRY(holder(store, key, claimant.rank, deadline)));
}

std::string claimed_twice(const Store& store, const std::string& key) {
  const auto words = store.state()->look(key + "/twice", base::Deadline(last_answer));
  return words.ok() && *words ? **words : "";
}

void call_off(const Store& store, const std::string& key) noexcept {
  try {
    static_cast<void>(store.state()->set(key + "/over", "", base::Deadline(last_answer)));
  } catch (const std::bad_alloc&) {  // then who comes waits as long as this rank did
  }
}

}  // namespace tenon::comm
