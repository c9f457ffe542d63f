// SPDX-License-Identifier: Apache-2.0
// flight_story.cpp: see flight_story.hpp. What is compared is what every rank must say alike; the rest differs by nature.
#include "flight_story.hpp"

#include "text_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace tenon::tool {
namespace {

std::string words(const FlightOperation& op) {
  if (op.kind == "barrier") return op.kind;
  std::string out = op.kind + (op.reduce.empty() ? "" : " " + op.reduce) + " of " + std::to_string(op.count) +
                    " " + op.dtype;
  if (op.peer >= 0)
    out += (op.kind == "send" ? " to " : op.kind == "recv" ? " from " : ", root ") + std::to_string(op.peer);
  return out;
}

bool is_message(const FlightOperation& op) { return op.kind == "send" || op.kind == "recv"; }

constexpr size_t kept = 256;  // operations of a record; of one that is full the first group may be cut

// The groups with collectives that a record still holds whole, by their number among those: what all ranks must say alike.
struct Group {
  uint64_t number = 0, at_ns = 0;
  std::string words{};
};
std::vector<Group> groups_of(const FlightRecord& record) {
  std::vector<Group> out;
  const auto& ops = record.operations;
  uint64_t last = ops.size() < kept ? 0 : ops.front().group;
  for (const FlightOperation& op : ops) {
    if (is_message(op) || op.group < last || (op.group == last && out.empty())) continue;
    if (op.group != last) out.push_back({.at_ns = op.at_ns});
    last = op.group;
    std::string& words_there = out.back().words;
    words_there += (words_there.empty() ? "" : " + ") +
                   (op.kind == "all_to_all_v" ? std::string("an exchange") : words(op));
  }
  for (size_t i = 0; i < out.size(); ++i) out[i].number = record.collectives - (out.size() - 1 - i);
  return out;
}

const Group* find_group(const std::vector<Group>& groups, uint64_t number) {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.number == number; });
  return found == groups.end() ? nullptr : &*found;
}

std::string last_words(const FlightRecord& record) {
  return record.operations.empty() ? "nothing" : words(record.operations.back());
}

std::string listed(const std::vector<uint32_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return out;
}

std::string seconds(uint64_t ns) {
  std::ostringstream out;
  out.precision(3);
  out << std::fixed << static_cast<double>(ns) / 1e9 << " s";
  return out.str();
}

std::vector<uint32_t> missing(const std::vector<FlightRecord>& records) {
  std::vector<uint32_t> out;
  for (uint32_t rank = 0; rank < records.front().size; ++rank) {
    if (std::none_of(records.begin(), records.end(), [&](const FlightRecord& r) { return r.rank == rank; }))
      out.push_back(rank);
  }
  return out;
}

bool have_messages(const std::vector<FlightRecord>& records) {
  return std::any_of(records.begin(), records.end(),
                     [](const FlightRecord& r) { return r.collectives != r.groups; });
}

// How groups are called that are counted without those of messages alone, where there are such.
std::string group_words(const std::vector<FlightRecord>& records, bool several) {
  return std::string(several ? "groups" : "group") + (have_messages(records) ? " of collectives" : "");
}

// The first group that two ranks submitted differently, or "".
std::string disagreement(const std::vector<FlightRecord>& records) {
  std::map<uint64_t, std::pair<uint32_t, std::string>> first;  // who said what
  std::map<uint64_t, std::string> differs;
  for (const FlightRecord& record : records) {
    for (const Group& group : groups_of(record)) {
      const auto [known, added] = first.try_emplace(group.number, record.rank, group.words);
      if (added || known->second.second == group.words) continue;
      differs.try_emplace(group.number, "rank " + std::to_string(known->second.first) + " submitted " +
                                            known->second.second + ", rank " + std::to_string(record.rank) +
                                            " " + group.words);
    }
  }
  if (differs.empty()) return {};
  const auto& [number, sides] = *differs.begin();
  return group_words(records, false) + " " + std::to_string(number) + " is not the same everywhere: " + sides;
}

// Who submitted less than others: those wait in the next group, and since when.
std::string laggards(const std::vector<FlightRecord>& records) {
  const auto [least, most] =
      std::minmax_element(records.begin(), records.end(),
                          [](const auto& a, const auto& b) { return a.collectives < b.collectives; });
  if (least->collectives == most->collectives) return {};
  const uint64_t next = least->collectives + 1;
  std::vector<uint32_t> late, waiting;
  uint64_t since = UINT64_MAX, ended = 0;
  std::string what;
  for (const FlightRecord& record : records) {
    (record.collectives == least->collectives ? late : waiting).push_back(record.rank);
    ended = std::max(ended, record.ended_ns);
    const std::vector<Group> groups = groups_of(record);
    const Group* group = find_group(groups, next);
    if (group == nullptr) continue;
    since = std::min(since, group->at_ns);
    what = " (" + group->words + ")";
  }
  std::string out = listed(waiting) + " waited for " + listed(late) + ", which submitted only " +
                    std::to_string(least->collectives) + " " + group_words(records, least->collectives != 1) +
                    ", in " + group_words(records, false) + " " + std::to_string(next) + what;
  if (since <= ended) out += " for " + seconds(ended - since);
  return out;
}

// Messages that one side of a pair has submitted and the other not, as far as both still hold all that they did.
struct Unmet {
  int64_t from = 0, to = 0;
  uint64_t sends = 0, receives = 0;
};
std::vector<Unmet> unmet_messages(const std::vector<FlightRecord>& records) {
  std::map<std::pair<int64_t, int64_t>, std::pair<uint64_t, uint64_t>> pairs;  // from, to: sends, receives
  const auto whole = [&](int64_t rank) {
    return std::any_of(records.begin(), records.end(),
                       [&](const FlightRecord& r) { return r.rank == rank && r.operations.size() < kept; });
  };
  for (const FlightRecord& record : records) {
    for (const FlightOperation& op : record.operations) {
      if (op.kind == "send") ++pairs[{record.rank, op.peer}].first;
      if (op.kind == "recv") ++pairs[{op.peer, record.rank}].second;
    }
  }
  std::vector<Unmet> out;
  for (const auto& [pair, count] : pairs) {
    if (count.first == count.second || !whole(pair.first) || !whole(pair.second)) continue;
    out.push_back({pair.first, pair.second, count.first, count.second});
  }
  return out;
}

std::string words(const Unmet& unmet) {
  return "  of messages from rank " + std::to_string(unmet.from) + " to rank " + std::to_string(unmet.to) +
         " " + std::to_string(unmet.sends) + (unmet.sends == 1 ? " was sent and " : " were sent and ") +
         std::to_string(unmet.receives) + (unmet.receives == 1 ? " was received\n" : " were received\n");
}

// Ranks of which each waits in a message for the next, and the last for the first; "" where there are none.
std::string circle(const std::vector<Unmet>& messages) {
  std::map<int64_t, std::map<int64_t, const char*>> waits;  // who: for whom, to do what
  for (const Unmet& one : messages) {
    if (one.sends > one.receives) waits[one.from].try_emplace(one.to, "receive");
    if (one.sends < one.receives) waits[one.to].try_emplace(one.from, "send");
  }
  // Who waits for one that waits for nobody is in no circle.
  for (size_t taken = 1; taken != 0;) {
    taken = 0;
    for (auto& [who, whom] : waits)
      taken += std::erase_if(whom, [&](const auto& wait) { return !waits.contains(wait.first); });
    taken += std::erase_if(waits, [](const auto& wait) { return wait.second.empty(); });
  }
  if (waits.empty()) return {};
  int64_t first = waits.begin()->first;
  for (size_t steps = 0; steps < waits.size(); ++steps) first = waits[first].begin()->first;  // now in one
  std::string out;
  int64_t who = first;
  do {
    const auto& [whom, what] = *waits[who].begin();
    out += (out.empty() ? "nobody goes on: rank " : ", rank ") + std::to_string(who) + " waits for rank " +
           std::to_string(whom) + " to " + what;
    who = whom;
  } while (who != first);
  return out + ": submit what each sends and receives as one group";
}

void add_table(std::ostringstream& out, const std::vector<FlightRecord>& records) {
  uint64_t first = UINT64_MAX;
  for (const FlightRecord& record : records) first = std::min(first, record.ended_ns);
  for (const FlightRecord& record : records) {
    out << "  rank " << record.rank << " on " << record.device << " submitted " << record.groups
        << (record.groups == 1 ? " group" : " groups")
        << (record.collectives == record.groups
                ? ""
                : ", " + std::to_string(record.collectives) + " with collectives")
        << ", the last of them " << last_words(record) << "; ended after " << seconds(record.ended_ns - first)
        << ": " << record.code << ": " << record.message << "\n";
  }
}

template <class Value>
void take(const nlohmann::json& from, const char* key, Value& out) {
  out = from.at(key).get<Value>();
}

FlightOperation operation_from(const nlohmann::json& json) {
  FlightOperation op;
  take(json, "group", op.group);
  take(json, "kind", op.kind);
  take(json, "dtype", op.dtype);
  take(json, "reduce", op.reduce);
  take(json, "count", op.count);
  take(json, "peer", op.peer);
  take(json, "at_ns", op.at_ns);
  return op;
}

// TN_NOT_FOUND when there is none.
Result<std::vector<FlightRecord>> records_in(const std::string& folder) {
  std::error_code failed;
  std::filesystem::directory_iterator files(folder, failed);
  if (failed) return Status(TN_NOT_FOUND, "no folder '" + folder + "': " + failed.message());
  std::vector<FlightRecord> out;
  for (const auto& entry : files) {
    if (entry.path().extension() != ".json") continue;
    const std::string text = TN_TRY(text_of(entry.path().string()));
    auto record = read_flight(text);
    if (!record.ok())
      return Status(record.code(), "'" + entry.path().string() + "': " + std::string(record.message()));
    out.push_back(*std::move(record));
  }
  if (!out.empty()) return out;
  return Status(TN_NOT_FOUND, "no flight record in '" + folder +
                                  "': ranks write them when a communicator fails, into TENON_FLIGHT_DIR");
}

}  // namespace

Result<FlightRecord> read_flight(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("tenon_flight") != 1)
      return Status(TN_VERSION, "a flight record of version " + json.at("tenon_flight").dump() +
                                    ", this tool reads version 1: use the tool of the library that wrote it");
    FlightRecord record;
    take(json, "communicator", record.communicator);
    take(json, "serial", record.serial);
    record.run = json.value("run", "");
    take(json, "rank", record.rank);
    take(json, "size", record.size);
    take(json, "device", record.device);
    take(json, "groups", record.groups);
    record.collectives = json.value("collectives", record.groups);
    const nlohmann::json& ended = json.at("ended");
    take(ended, "code", record.code);
    take(ended, "message", record.message);
    take(ended, "at_ns", record.ended_ns);
    for (const nlohmann::json& op : json.at("operations")) record.operations.push_back(operation_from(op));
    return record;
  } catch (const nlohmann::json::exception& wrong) {
    return Status(TN_INVALID, std::string("this is no flight record: ") + wrong.what());
  }
}

std::string flight_story(std::vector<FlightRecord> records) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::ostringstream out;
  const FlightRecord& one = records.front();
  out << "communicator '" << one.communicator << "'";
  if (one.serial > 0) out << ", number " << one.serial + 1 << " of that name";
  out << ": " << one.size << " ranks, " << records.size()
      << (records.size() == 1 ? " record\n" : " records\n");
  add_table(out, records);
  const std::vector<uint32_t> lost = missing(records);
  const std::string differs = disagreement(records), behind = laggards(records);
  const std::vector<Unmet> unmet = unmet_messages(records);
  if (!lost.empty())
    out << "  " << listed(lost) << " left no record: killed, stopped, still running, or ended well\n";
  if (!differs.empty()) out << "  " << differs << "\n";
  if (!behind.empty()) out << "  " << behind << "\n";
  for (const Unmet& messages : unmet) out << words(messages);
  if (const std::string waits = circle(unmet); !waits.empty()) out << "  " << waits << "\n";
  if (lost.empty() && differs.empty() && behind.empty() && unmet.empty())
    out << "  all ranks submitted the same " << (have_messages(records) ? "collectives" : "groups")
        << ": the cause is in the words of the first that ended\n";
  return out.str();
}

Result<std::string> tell_flight(const std::string& folder) {
  const std::vector<FlightRecord> records = TN_TRY(records_in(folder));
  const FlightRecord& newest = *std::max_element(
      records.begin(), records.end(), [](const auto& a, const auto& b) { return a.ended_ns < b.ended_ns; });
  std::map<std::pair<std::string, uint64_t>, std::vector<FlightRecord>> communicators;
  std::set<std::string> others;
  size_t of_others = 0;
  for (const FlightRecord& record : records) {
    if (record.run == newest.run) {
      communicators[{record.communicator, record.serial}].push_back(record);
    } else {
      others.insert(record.run);
      ++of_others;
    }
  }
  std::string out;
  for (auto& [name, of] : communicators) out += flight_story(std::move(of));
  if (of_others != 0)
    out += std::to_string(of_others) + (of_others == 1 ? " record" : " records") + " of " +
           std::to_string(others.size()) + (others.size() == 1 ? " older run" : " older runs") +
           (of_others == 1 ? " is" : " are") +
           " here, too, and no part of this: give each run a TENON_FLIGHT_DIR of its own, or remove what it "
           "left\n";
  return out;
}

}  // namespace tenon::tool
