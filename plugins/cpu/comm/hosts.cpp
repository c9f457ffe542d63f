// SPDX-License-Identifier: Apache-2.0
// hosts.cpp: see hosts.hpp.
#include "hosts.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <array>
#include <map>

namespace tenon::cpu::comm {

using author::text;

namespace {

// What a rank says: a line each.
enum Line : size_t { key, network, words, size_told, lines };

std::string said_by(const system::Place& place, const Where& where, uint32_t size) {
  const std::string name = where.host.empty() ? system::host_name() : where.host;
  return text(place.boot[0], " ", place.boot[1], " ", place.process_space, " ", place.host, "\n",
              place.boot[0], " ", place.boot[1], " ", system::network_space(), "\nprocess ",
              system::process(), " on host ", name, "\n", size);
}

Result<std::array<std::string, lines>> split(const std::string& said, uint32_t rank) {
  std::array<std::string, lines> out;
  size_t begin = 0, n = 0;
  while (n < lines && begin <= said.size()) {
    const size_t end = std::min(said.find('\n', begin), said.size());
    out[n++] = said.substr(begin, end - begin);
    begin = end + 1;
  }
  if (n == lines && begin > said.size()) return out;
  return Status(TN_INVALID, text("rank ", rank,
                                 " does not say where it is: run one version of the cpu plugin "
                                 "everywhere"));
}

std::string at(uint32_t rank) { return text("at/", rank); }

std::string missing(const Notices& notices, uint32_t size) {
  constexpr uint64_t all_ns = 1'000'000'000;
  std::string ranks;
  for (uint32_t q = 0; q < size; ++q) {
    if (!notices.has(at(q), all_ns / size)) ranks += text(ranks.empty() ? "" : ", ", q);
  }
  return ranks.empty() ? "none" : ranks;
}

}  // namespace

Result<Hosts> Hosts::meet(const Notices& notices, const system::Place& place, const Where& where,
                          uint32_t rank, uint32_t size, uint64_t deadline) {
  Hosts out;
  std::map<std::string, uint32_t> known;
  std::string first_network;
  TN_TRY(notices.post(at(rank), said_by(place, where, size)));
  for (uint32_t q = 0; q < size; ++q) {
    const Result<std::string> heard = notices.read(at(q), deadline);
    if (heard.code() == TN_TIMEOUT) {
      return Status(TN_TIMEOUT, text("ranks on other hosts did not come in time; missing: ",
                                     missing(notices, size), ": were they started?"));
    }
    if (!heard.ok()) return Status(Error(heard.error()));
    const auto line = TN_TRY(split(*heard, q));
    if (line[size_told] != text(size)) {
      return Status(TN_MISMATCH, text("rank ", rank, " was told of ", size, " ranks, rank ", q, " of ",
                                      line[size_told], ": tell all ranks the same number"));
    }
    if (q == 0) first_network = line[network];
    out.one_network_ = out.one_network_ && line[network] == first_network;
    const uint32_t host = known.try_emplace(line[key], out.count()).first->second;
    if (host == out.count()) out.ranks_.emplace_back();
    out.host_of_.push_back(host);
    out.place_.push_back(static_cast<uint32_t>(out.ranks_[host].size()));
    out.ranks_[host].push_back(q);
    out.words_.push_back(line[words]);
  }
  return out;
}

std::vector<std::string> Hosts::abroad(uint32_t rank) const {
  std::vector<std::string> out(words_);
  for (const uint32_t mate : ranks_[host_of_[rank]]) out[mate].clear();
  return out;
}

}  // namespace tenon::cpu::comm
