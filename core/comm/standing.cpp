// SPDX-License-Identifier: Apache-2.0
// standing.cpp: see standing.hpp. The text is numbers, each with a blank behind it; a name has its length in front.
#include "comm/standing.hpp"

#include "comm/words.hpp"

#include <tenon/types.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace tenon::comm {
namespace {

constexpr uint64_t most = 1 << 16;  // of what there are several in a text

// What all ranks have alike; the rest is each rank's own, or has no meaning.
Standing::Operation common(const Flight::Operation& op) {
  Standing::Operation out{.kind = op.kind, .peer = op.peer};
  if (op.kind == TN_COMM_BARRIER) return out;
  out.dtype = op.dtype;
  if (op.kind == TN_COMM_ALL_REDUCE || op.kind == TN_COMM_REDUCE || op.kind == TN_COMM_REDUCE_SCATTER)
    out.reduce = op.reduce;
  if (op.kind != TN_COMM_ALL_TO_ALL_V) out.count = op.count;
  return out;
}

// From the newest back: the last collective, or message of a pair, is as many as there were.
void number(Standing& standing, std::vector<uint64_t> received) {
  std::vector<uint64_t> sent = standing.sent;
  uint64_t collectives = standing.collectives;
  for (auto group = standing.last.rbegin(); group != standing.last.rend(); ++group) {
    bool collective = false;
    for (auto op = group->operations.rbegin(); op != group->operations.rend(); ++op) {
      collective |= !is_message(op->kind);
      if (!is_message(op->kind)) continue;
      auto& all = op->kind == TN_COMM_SEND ? sent : received;
      if (const auto peer = static_cast<size_t>(op->peer); peer < all.size()) op->turn = all[peer]--;
    }
    if (collective) group->collective = collectives--;
  }
}

// Takes the last group off, as if it had not been noted.
void forget_last(Standing& standing, std::vector<uint64_t>& received) {
  bool collective = false;
  for (const Standing::Operation& op : standing.last.back().operations) {
    collective |= !is_message(op.kind);
    auto& all = op.kind == TN_COMM_SEND ? standing.sent : received;
    if (const auto peer = static_cast<size_t>(op.peer); is_message(op.kind) && peer < all.size()) --all[peer];
  }
  if (collective) --standing.collectives;
  --standing.groups;
  standing.last.pop_back();
}

class Writer {
 public:
  Writer& operator<<(uint64_t value) {
    text += std::to_string(value) + ' ';
    return *this;
  }
  Writer& operator<<(const std::string& name) {
    *this << uint64_t{name.size()};
    text += name;
    return *this;
  }
  std::string text{};
};

// Once something is wrong all that follows is 0, and `ok` false.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  template <class Number>
  void operator>>(Number& out) {
    uint64_t value = 0;
    const auto read = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const auto length = static_cast<size_t>(read.ptr - rest_.data());
    ok = ok && read.ec == std::errc() && length < rest_.size() && rest_[length] == ' ';
    rest_.remove_prefix(ok ? length + 1 : rest_.size());
    out = static_cast<Number>(ok ? value : 0);
  }
  void operator>>(std::string& out) {
    const uint64_t length = count();
    ok = ok && length <= rest_.size();
    out = ok ? rest_.substr(0, length) : "";
    rest_.remove_prefix(out.size());
  }
  uint64_t count() {
    uint64_t value = 0;
    *this >> value;
    ok = ok && value <= most;
    return ok ? value : 0;
  }
  bool ok = true;

 private:
  std::string_view rest_;
};

Standing::Group read_group(Reader& in) {
  Standing::Group out;
  in >> out.number;
  in >> out.collective;
  out.operations.resize(in.count());
  for (Standing::Operation& op : out.operations) {
    in >> op.kind;
    in >> op.dtype;
    in >> op.reduce;
    in >> op.peer;
    --op.peer;
    in >> op.count;
    in >> op.turn;
  }
  return out;
}

Standing::Behind read_behind(Reader& in) {
  Standing::Behind out;
  in >> out.group;
  in >> out.other;
  in >> out.rank;
  in >> out.size;
  in >> out.key;
  in >> out.name;
  return out;
}

}  // namespace

// Of the oldest group operations may have been overwritten.
Standing Standing::of(const Flight::Noted& noted, bool last_may_be_refused) {
  Standing out{.groups = noted.groups, .collectives = noted.collectives};
  out.counted = !noted.sent.empty();
  out.sent = noted.sent;
  const bool cut = noted.total > noted.operations.size();
  for (const Flight::Operation& op : noted.operations) {
    if (cut && op.group == noted.operations.front().group) continue;
    if (out.last.empty() || out.last.back().number != op.group) out.last.push_back({.number = op.group});
    out.last.back().operations.push_back(common(op));
  }
  std::vector<uint64_t> received = noted.received;
  if (last_may_be_refused && noted.accepted < noted.groups) {
    if (!out.last.empty() && out.last.back().number == noted.groups)
      forget_last(out, received);
    else
      out.counted = false, out.last.clear();
  }
  number(out, std::move(received));
  return out;
}

std::string Standing::text() const {
  Writer out;
  out << groups << collectives << uint64_t{counted} << uint64_t{sent.size()};
  for (const uint64_t each : sent) out << each;
  out << uint64_t{last.size()};
  for (const Group& group : last) {
    out << group.number << group.collective << uint64_t{group.operations.size()};
    for (const Operation& op : group.operations)
      out << op.kind << op.dtype << op.reduce << static_cast<uint64_t>(int64_t{op.peer} + 1) << op.count
          << op.turn;
  }
  out << uint64_t{behind.size()};
  for (const Behind& each : behind)
    out << each.group << each.other << each.rank << each.size << each.key << each.name;
  return std::move(out.text);
}

std::optional<Standing> Standing::read(std::string_view text) {
  Reader in(text);
  Standing out;
  in >> out.groups;
  in >> out.collectives;
  in >> out.counted;
  out.sent.resize(in.count());
  for (uint64_t& each : out.sent) in >> each;
  out.last.resize(in.count());
  for (Group& group : out.last) group = read_group(in);
  out.behind.resize(in.count());
  for (Behind& each : out.behind) each = read_behind(in);
  return in.ok ? std::optional(std::move(out)) : std::nullopt;
}

std::string words(const Standing::Operation& op) {
  std::string out(kind_name(op.kind));
  if (op.kind == TN_COMM_BARRIER) return out;
  if (const std::string_view how = reduction_name(op.reduce); !how.empty()) out += " " + std::string(how);
  if (op.kind != TN_COMM_ALL_TO_ALL_V) out += " of " + std::to_string(op.count);
  out += " " + std::string(name(static_cast<DType>(op.dtype)));
  if (op.peer < 0) return out;
  const char* const peer = op.kind == TN_COMM_SEND   ? " to rank "
                           : op.kind == TN_COMM_RECV ? " from rank "
                                                     : ", root ";
  return out + peer + std::to_string(op.peer);
}

std::string words(const Standing::Group& group) {
  constexpr size_t told = 3;
  std::string out;
  for (size_t i = 0; i < group.operations.size() && i < told; ++i)
    out += (i == 0 ? "" : "; ") + words(group.operations[i]);
  const size_t rest = group.operations.size() - std::min(group.operations.size(), told);
  return rest == 0 ? out : out + "; and " + std::to_string(rest) + " more";
}

}  // namespace tenon::comm
