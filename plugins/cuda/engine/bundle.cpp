// SPDX-License-Identifier: Apache-2.0
// bundle.cpp: the form of a bundle: a head of fixed size, the source, the image.
#include "bundle.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tenon::cuda {

using author::text;

namespace {

struct Head {
  char magic[8];
  uint32_t sm, version, driver, reserved;
  std::array<uint8_t, 32> identity;
  uint64_t source_bytes, image_bytes, image_sum;
};
constexpr char magic[8] = {'T', 'N', 'C', 'U', 'D', 'A', '0', '2'};

// FNV-1a; told apart by its start.
uint64_t sum(std::string_view bytes, uint64_t from = 0xcbf29ce484222325u) {
  for (const char c : bytes) from = (from ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return from;
}

Head head_of(const Bundle& b) {
  Head out{.magic = {},
           .sm = b.sm,
           .version = b.version,
           .driver = b.driver,
           .reserved = 0,
           .identity = b.identity,
           .source_bytes = b.source.size(),
           .image_bytes = b.image.size(),
           .image_sum = sum(b.image)};
  std::memcpy(out.magic, magic, sizeof magic);
  return out;
}

}  // namespace

std::string Bundle::key() const {
  const std::string head = text(sm, ".", version, ".", driver, ".");
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(sum(source, sum(head))),
                static_cast<unsigned long long>(sum(head, sum(source, 0x9e3779b97f4a7c15u))));
  return out;
}

uint64_t Bundle::bytes() const noexcept { return sizeof(Head) + source.size() + image.size(); }

uint64_t Bundle::write(std::span<std::byte> out) const {
  const Head head = head_of(*this);
  size_t at = 0;
  const auto put = [&](const void* from, size_t size) {
    if (at < out.size()) std::memcpy(out.data() + at, from, std::min(size, out.size() - at));
    at += size;
  };
  put(&head, sizeof head);
  put(source.data(), source.size());
  put(image.data(), image.size());
  return at;
}

Status Bundle::read(std::span<const std::byte> saved) {
  const auto mismatch = [&](const std::string& why) {
    return Status(TN_MISMATCH, text("these ", saved.size(), " bytes ", why, ": compile the fragment anew"));
  };
  Head head{};
  if (saved.size() < sizeof head) return mismatch("are no kernel that this plugin saved");
  std::memcpy(&head, saved.data(), sizeof head);
  if (std::memcmp(head.magic, magic, sizeof magic) != 0)
    return mismatch("were not saved by this version of plugin 'cuda'");
  if (head.sm != sm) return mismatch(text("were compiled for sm_", head.sm, ", and this device is sm_", sm));
  if (head.version != version)
    return mismatch(text("were made by ", maker, " ", head.version, ", and this one is ", version));
  if (head.driver != driver)
    return mismatch(text("were compiled under a driver for CUDA ", head.driver / 1000, ".",
                         head.driver % 1000 / 10, ", and this one is for ", driver / 1000, ".",
                         driver % 1000 / 10));
  if (head.identity != identity) return mismatch("were saved for another fragment");
  const uint64_t rest = saved.size() - sizeof head;
  if (head.source_bytes > rest || head.image_bytes != rest - head.source_bytes)
    return mismatch("are cut off");
  const auto* const text_begin = reinterpret_cast<const char*>(saved.data()) + sizeof head;
  if (std::string_view(text_begin, head.source_bytes) != source)
    return mismatch("were saved for another fragment");
  const std::string_view kept(text_begin + head.source_bytes, head.image_bytes);
  if (sum(kept) != head.image_sum) return mismatch("are damaged");
  image.assign(kept);
  return {};
}

bool Bundle::recall(const Folder& folder) {
  const std::string kept = folder.find(key() + ".bundle");
  return read(std::as_bytes(std::span(kept))).ok();
}

void Bundle::remember(const Folder& folder) const {
  std::string out(bytes(), '\0');
  write(std::as_writable_bytes(std::span(out)));
  folder.keep(key() + ".bundle", out);
}

}  // namespace tenon::cuda
