// SPDX-License-Identifier: Apache-2.0
// place.cpp: a mark, a place, and a row of bytes that follows from it up to the end of the id.
#include "place.hpp"

#include <tenon/author/text.hpp>

#include <cstring>

namespace tenon::sim::comm {

namespace {

constexpr uint64_t mark = 0x3144'494d'4953'4e54;  // "TNSIMID1"
static_assert(least_id_bytes == sizeof mark + sizeof(Place));

std::byte filling(const Place& place, uint64_t at) noexcept {
  return static_cast<std::byte>((place.token >> (at % 8 * 8)) + at * 37);
}

}  // namespace

std::string Place::name() const {
  return author::text("tenon-sim-", process, "-", number, "-", token % 1'000'000);
}

void Place::write(std::span<std::byte> id) const noexcept {
  std::memcpy(id.data(), &mark, sizeof mark);
  std::memcpy(id.data() + sizeof mark, this, sizeof *this);
  for (uint64_t at = least_id_bytes; at < id.size(); ++at) id[at] = filling(*this, at);
}

Result<Place> Place::read(std::span<const std::byte> id) {
  Place out;
  std::memcpy(&out, id.data() + sizeof mark, sizeof out);
  if (std::memcmp(id.data(), &mark, sizeof mark) != 0)
    return Status(TN_INVALID, "this id was not made by a simulated device: call make_id on one rank");
  for (uint64_t at = least_id_bytes; at < id.size(); ++at) {
    if (id[at] == filling(out, at)) continue;
    return Status(TN_INVALID, author::text("byte ", at, " of this id's ", id.size(),
                                           " is not as it was made: carry it whole, and unchanged"));
  }
  return out;
}

}  // namespace tenon::sim::comm
