// SPDX-License-Identifier: Apache-2.0
// header_reader.cpp: what a file's header says, of whatever program.
//
// Invariant: a file is data, never trusted: a header is either right in every number, or refused with its byte or tensor.
#include "base/extent.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/dtypes.hpp"
#include "checkpoint/header.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace tenon::checkpoint {
namespace {

constexpr std::array<std::string_view, 3> tensor_keys{"dtype", "shape", "data_offsets"};

Status wrong(const std::string& why) { return {TN_INVALID, why}; }
Status wrong(const Placed& placed, const std::string& why) {
  return wrong("tensor " + base::quoted(placed.tensor.name) + " " + why);
}

class Reading {
 public:
  Reading(std::string_view head, uint64_t file_bytes)
      : reader_(head.substr(length_bytes), length_bytes), data_at_(head.size()), file_bytes_(file_bytes) {}
  Result<Header> run();

 private:
  Status member(const std::string& key);
  Status tensor(const std::string& name);
  Status tensor_value(size_t place, Placed& placed);
  Result<std::vector<int64_t>> counts(std::string_view what);
  Status check_places();
  Status check_place(const Placed& placed, const Placed* before) const;
  Status check_end() const;
  Status take_own_notes();
  std::string first_own_note() const;

  base::JsonReader reader_;
  uint64_t data_at_, file_bytes_;
  Header out_{};
  std::set<std::string> names_{};
};

Result<Header> Reading::run() {
  TN_TRY(reader_.object([&](const std::string& key) { return member(key); }));
  TN_TRY(reader_.end());
  TN_TRY(check_places());
  TN_TRY(take_own_notes());
  return std::move(out_);
}

Status Reading::member(const std::string& key) {
  if (!names_.insert(key).second) return reader_.wrong("tensor " + base::quoted(key) + " is there twice");
  if (key != "__metadata__") return tensor(key);
  return reader_.object([&](const std::string& name) -> Status {
    std::string value = TN_TRY(reader_.string());
    const bool first = out_.notes.emplace(name, std::move(value)).second;
    return first ? Status() : reader_.wrong("note " + base::quoted(name) + " is there twice");
  });
}

Status Reading::tensor(const std::string& name) {
  Placed placed{.tensor = {.name = name}};
  base::Keys keys("a tensor", tensor_keys);
  TN_TRY(reader_.object([&](const std::string& key) -> Status {
    return tensor_value(TN_TRY(keys.place(reader_, key)), placed);
  }));
  for (size_t i = 0; i < tensor_keys.size(); ++i)
    if (!keys.has(i))
      return reader_.wrong("tensor " + base::quoted(name) + " lacks " + base::quoted(tensor_keys[i]));
  out_.tensors.push_back(std::move(placed));
  return {};
}

Status Reading::tensor_value(size_t place, Placed& placed) {
  const std::string called = "tensor " + base::quoted(placed.tensor.name);
  if (place == 0) {
    const std::string type = TN_TRY(reader_.string());
    const auto dtype = dtype_called(type);
    if (!dtype)
      return reader_.wrong(called + " is of type " + base::quoted(type) + ", which Tenon does not have");
    placed.tensor.spec.dtype = *dtype;
    return {};
  }
  std::vector<int64_t> values = TN_TRY(counts(called));
  if (place == 1) {
    placed.tensor.spec.dims = std::move(values);
    return {};
  }
  if (values.size() != 2)
    return reader_.wrong(called + " has " + base::counted(values.size(), "offset") + ": it begins and ends");
  placed.begin = static_cast<uint64_t>(values[0]);
  placed.end = static_cast<uint64_t>(values[1]);
  return {};
}

// An array of what is not negative, of no more than a tensor has dims.
Result<std::vector<int64_t>> Reading::counts(std::string_view what) {
  std::vector<int64_t> out;
  TN_TRY(reader_.array([&]() -> Status {
    const int64_t value = TN_TRY(reader_.integer());
    if (value < 0)
      return reader_.wrong(std::string(what) + " has " + std::to_string(value) + ", which is below 0");
    if (out.size() == TN_MAX_RANK)
      return reader_.wrong(std::string(what) + " has more than " + std::to_string(TN_MAX_RANK) + " dims");
    out.push_back(value);
    return {};
  }));
  return out;
}

Status Reading::check_places() {
  std::stable_sort(out_.tensors.begin(), out_.tensors.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const Placed* before = nullptr;
  for (const Placed& placed : out_.tensors) {
    TN_TRY(check_place(placed, before));
    before = &placed;
  }
  return check_end();
}

Status Reading::check_place(const Placed& placed, const Placed* before) const {
  const auto byte = [&](uint64_t offset) { return "byte " + std::to_string(data_at_ + offset); };
  const uint64_t expected = before == nullptr ? 0 : before->end;
  if (placed.end < placed.begin)
    return wrong(placed, "ends at " + byte(placed.end) + ", before it begins at " + byte(placed.begin));
  if (placed.begin < expected)
    return wrong(placed, "begins at " + byte(placed.begin) + ", inside of " +
                             base::quoted(before->tensor.name) + ", which ends at " + byte(expected));
  if (placed.begin > expected)
    return wrong(placed, "begins at " + byte(placed.begin) + ", and what is from " + byte(expected) +
                             " on belongs to no tensor");
  const TensorSpec& spec = placed.tensor.spec;
  const base::Extent extent = base::extent_of(spec.dims, {}, bits(spec.dtype));
  const uint64_t bytes = placed.end - placed.begin;
  if (extent.too_large || extent.bytes != bytes)
    return wrong(placed, "is " + words(spec) + ", which takes " +
                             (extent.too_large ? "more than 2^63" : std::to_string(extent.bytes)) +
                             " bytes, and has " + std::to_string(bytes));
  return {};
}

Status Reading::check_end() const {
  const uint64_t end = out_.tensors.empty() ? 0 : out_.tensors.back().end;
  const uint64_t bytes = file_bytes_ - data_at_;
  if (end > bytes)
    return wrong(out_.tensors.back(), "ends at byte " + std::to_string(data_at_ + end) +
                                          ", and the file at byte " + std::to_string(file_bytes_) +
                                          ": it was cut off, take another copy");
  if (end < bytes)
    return wrong("what is from byte " + std::to_string(data_at_ + end) +
                 " on belongs to no tensor, and the file ends at byte " + std::to_string(file_bytes_));
  return {};
}

// What Tenon itself said leaves the notes: the tensors' checksums go to them.
Status Reading::take_own_notes() {
  const auto taken = [&](const std::string& name) {
    const auto node = out_.notes.extract(name);
    return node.empty() ? std::string() : node.mapped();
  };
  out_.own = !first_own_note().empty();
  if (!out_.own) return {};
  taken(std::string(digest_note));
  const std::string made = taken(std::string(format_note));
  if (made != format)
    return wrong("its format is " + base::quoted(made) + ", and not '" + std::string(format) +
                 "': use the Tenon that wrote it");
  for (Placed& placed : out_.tensors) {
    placed.digest = taken(std::string(digest_note) + "." + placed.tensor.name);
    if (placed.digest.empty()) return wrong(placed, "has no checksum: take another copy");
  }
  const std::string left = first_own_note();
  return left.empty()
             ? Status()
             : wrong("note " + base::quoted(left) + " is of no tensor, and Tenon has none so called");
}

std::string Reading::first_own_note() const {
  const auto found = out_.notes.lower_bound(std::string(own_notes));
  return found != out_.notes.end() && found->first.starts_with(own_notes) ? found->first : "";
}

}  // namespace

Result<Header> read_header(std::string_view head, uint64_t file_bytes) {
  const std::string_view json = head.substr(length_bytes);
  if (!json.starts_with('{')) return wrong("it is no safetensors file: byte 8 is no '{'");
  if (!base::is_utf8(json)) return wrong("its header is not UTF-8: it is damaged, or no safetensors file");
  return Reading(head, file_bytes).run();
}

}  // namespace tenon::checkpoint
