// SPDX-License-Identifier: Apache-2.0
// flight_story.cpp: see flight_story.hpp. What is compared is what every rank must say alike; the rest differs by nature.
#include "flight_story.hpp"

#include "text_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
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

// What a rank submitted as group `number`, as far as all ranks must agree; "" when it is no longer, or not yet, known.
std::string common_words(const FlightRecord& record, uint64_t number) {
  std::string out;
  for (const FlightOperation& op : record.operations) {
    if (op.group != number) continue;
    const bool alike = op.kind != "send" && op.kind != "recv" && op.kind != "all_to_all_v";
    out += (out.empty() ? "" : " + ") + (alike ? words(op) : "an exchange");
  }
  return out;
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

// The first group that two ranks submitted differently, or "".
std::string disagreement(const std::vector<FlightRecord>& records) {
  uint64_t most = 0;
  for (const FlightRecord& record : records) most = std::max(most, record.groups);
  for (uint64_t number = 1; number <= most; ++number) {
    const FlightRecord* first = nullptr;
    std::string said;
    for (const FlightRecord& record : records) {
      const std::string here = common_words(record, number);
      if (here.empty()) continue;
      if (first != nullptr && here != said) {
        return "group " + std::to_string(number) + " is not the same everywhere: rank " +
               std::to_string(first->rank) + " submitted " + said + ", rank " + std::to_string(record.rank) +
               " " + here;
      }
      if (first == nullptr) first = &record, said = here;
    }
  }
  return {};
}

// Who submitted less than others: those wait in the next group, and since when.
std::string laggards(const std::vector<FlightRecord>& records) {
  const auto [least, most] = std::minmax_element(
      records.begin(), records.end(), [](const auto& a, const auto& b) { return a.groups < b.groups; });
  if (least->groups == most->groups) return {};
  std::vector<uint32_t> late, waiting;
  uint64_t since = UINT64_MAX, ended = 0;
  for (const FlightRecord& record : records) {
    (record.groups == least->groups ? late : waiting).push_back(record.rank);
    ended = std::max(ended, record.ended_ns);
    for (const FlightOperation& op : record.operations) {
      if (op.group == least->groups + 1) since = std::min(since, op.at_ns);
    }
  }
  std::string out = listed(waiting) + " waited for " + listed(late) + ", which submitted only " +
                    std::to_string(least->groups) +
                    (least->groups == 1 ? " group, in group " : " groups, in group ") +
                    std::to_string(least->groups + 1);
  if (const std::string what = common_words(*most, least->groups + 1); !what.empty())
    out += " (" + what + ")";
  if (since <= ended) out += " for " + seconds(ended - since);
  return out;
}

void add_table(std::ostringstream& out, const std::vector<FlightRecord>& records) {
  uint64_t first = UINT64_MAX;
  for (const FlightRecord& record : records) first = std::min(first, record.ended_ns);
  for (const FlightRecord& record : records) {
    out << "  rank " << record.rank << " on " << record.device << " submitted " << record.groups
        << (record.groups == 1 ? " group" : " groups") << ", the last of them " << last_words(record)
        << "; ended after " << seconds(record.ended_ns - first) << ": " << record.code << ": "
        << record.message << "\n";
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
    take(json, "rank", record.rank);
    take(json, "size", record.size);
    take(json, "device", record.device);
    take(json, "groups", record.groups);
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
  if (!lost.empty())
    out << "  " << listed(lost)
        << " left no record: killed, stopped, or still running; the others waited for "
        << (lost.size() == 1 ? "it\n" : "them\n");
  if (!differs.empty()) out << "  " << differs << "\n";
  if (!behind.empty()) out << "  " << behind << "\n";
  if (lost.empty() && differs.empty() && behind.empty())
    out << "  all ranks submitted the same groups: the cause is in the words of the first that ended\n";
  return out.str();
}

Result<std::string> tell_flight(const std::string& folder) {
  std::error_code failed;
  std::map<std::pair<std::string, uint64_t>, std::vector<FlightRecord>> communicators;
  std::filesystem::directory_iterator files(folder, failed);
  if (failed) return Status(TN_NOT_FOUND, "no folder '" + folder + "': " + failed.message());
  for (const auto& entry : files) {
    if (entry.path().extension() != ".json") continue;
    const std::string text = TN_TRY(text_of(entry.path().string()));
    auto record = read_flight(text);
    if (!record.ok())
      return Status(record.code(), "'" + entry.path().string() + "': " + std::string(record.message()));
    communicators[{record->communicator, record->serial}].push_back(*std::move(record));
  }
  if (communicators.empty())
    return Status(TN_NOT_FOUND, "no flight record in '" + folder +
                                    "': ranks write them when a communicator fails, into TENON_FLIGHT_DIR");
  std::string out;
  for (auto& [name, records] : communicators) out += flight_story(std::move(records));
  return out;
}

}  // namespace tenon::tool
