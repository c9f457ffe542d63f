// SPDX-License-Identifier: Apache-2.0
// place.cpp: ids, and the keys of the store that they lead to.
#include "place.hpp"

#include <tenon/author/text.hpp>

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>

namespace tenon::cuda::comm {

using author::text;

namespace {

constexpr uint64_t mark = 0x3244'4944'5543'4e54;  // "TNCUDID2"
static_assert(id_bytes == sizeof mark + sizeof(Place));

uint64_t drawn() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

}  // namespace

// A forked child is another process, with the same drawn number.
uint64_t this_process() noexcept {
  static const uint64_t number = drawn();
  return number ^ static_cast<uint64_t>(getpid());
}

std::string key_of(const Place& place, const std::string& what) {
  return text("tenon.cuda/", place.process, "/", place.token, "/", what);
}

Place Place::fresh() {
  static std::atomic<uint64_t> token{drawn()};
  return {.process = this_process(), .token = token.fetch_add(1)};
}

void Place::write(std::span<std::byte> id) const noexcept {
  std::memcpy(id.data(), &mark, sizeof mark);
  std::memcpy(id.data() + sizeof mark, this, sizeof *this);
}

Result<Place> Place::read(std::span<const std::byte> id) {
  Place out;
  if (std::memcmp(id.data(), &mark, sizeof mark) != 0)
    return Status(TN_INVALID, "this id was not made by plugin 'cuda': call make_id on one rank");
  std::memcpy(&out, id.data() + sizeof mark, sizeof out);
  return out;
}

bool Place::is_here() const noexcept { return process == this_process(); }

Status refuse_elsewhere(const Place& place, uint32_t rank, const char* name, const tn_store* store) {
  const std::string story =
      text("rank ", rank, " of communicator '", name,
           "' is in another process than the one that made the id: communicators of plugin 'cuda' join the "
           "threads of one process");
  if (store != nullptr)
    (void)store->set(store->context, key_of(place, "elsewhere").c_str(), story.data(), story.size(), nullptr);
  return Status(TN_UNSUPPORTED, story);
}

std::optional<std::string> told_elsewhere(const Place& place, const tn_store* store) {
  if (store == nullptr) return std::nullopt;
  std::string story(512, '\0');
  uint64_t bytes = 0;
  const int32_t code = store->get(store->context, key_of(place, "elsewhere").c_str(), story.data(),
                                  story.size(), &bytes, 0, nullptr);
  if (code != TN_OK) return std::nullopt;
  story.resize(std::min<size_t>(bytes, story.size()));
  return story;
}

}  // namespace tenon::cuda::comm
