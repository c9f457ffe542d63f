// SPDX-License-Identifier: Apache-2.0
// ids.cpp: the id of a device is "stable on this machine" (device.h): by it a host knows a device again, in another process,
// on another day, and remembers what it measured there.
#include "conformance/case.hpp"
#include "conformance/cases/visitor.hpp"
#include "conformance/comm/ranks.hpp"
#include "conformance/comm/seat.hpp"

#include <cstring>
#include <map>

namespace tenon::conform {

namespace {

constexpr const char* remedy =
    ": take what the hardware or its place is called by, such as a PCI address or a serial number";

// Of every device, in order.
Result<std::vector<std::string>> ids(Context& t) {
  const Tables& api = *TN_TRY(t.tables());
  const uint32_t count = TN_TRY(device_count(t));
  std::vector<std::string> out;
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    tn_device_info info{};
    info.size = sizeof info;
    TN_TRY(t.call(words("device.info(", ordinal, ")"),
                  [&](tn_error* e) { return api.device.info(api.plugin, ordinal, &info, e); }));
    out.emplace_back(info.id, strnlen(info.id, sizeof info.id));
  }
  return out;
}

void same_ids(Context& t, const std::vector<std::string>& before, const std::vector<std::string>& after,
              const char* when) {
  t.check(before.size() == after.size(), before.size(), " devices were counted, and ", after.size(), " ",
          when);
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    t.check(before[i] == after[i], "the id of device ", i, " is '", before[i], "', and '", after[i], "' ",
            when, remedy);
  }
}

// What the visitor read, for the case that sent it: a line each.
Status publish(const FolderStore& store, const std::vector<std::string>& found) {
  std::string text;
  for (const std::string& id : found) text += id + "\n";
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return store.set("ids", Bytes(bytes, bytes + text.size()));
}

Result<std::vector<std::string>> published(const FolderStore& store, uint64_t patience_ns) {
  const Bytes bytes = TN_TRY(store.get("ids", patience_ns));
  std::vector<std::string> out(1);
  for (const std::byte one : bytes) {
    if (static_cast<char>(one) == '\n') {
      out.emplace_back();
    } else {
      out.back() += static_cast<char>(one);
    }
  }
  out.pop_back();
  return out;
}

}  // namespace

CONFORM_CASE(0, "device: each has an id, and no other has the same") {
  const std::vector<std::string> found = TN_TRY(ids(t));
  std::map<std::string, size_t> first;
  t.check(true, "");  // a plugin that counts no device keeps this, too
  for (size_t i = 0; i < found.size(); ++i) {
    if (!t.check(!found[i].empty(), "device ", i, " has no id", remedy)) continue;
    const auto [other, added] = first.try_emplace(found[i], i);
    t.check(added, "devices ", other->second, " and ", i, " have one id, '", found[i], "'", remedy);
  }
  return {};
}

CONFORM_CASE(0, "device: ids are the same once one is open, and in another process", .alone = true) {
  const std::vector<std::string> found = TN_TRY(ids(t));
  if (is_visitor()) return publish(FolderStore(stage().seat.folder), found);
  const MeetingPlace place = TN_TRY(MeetingPlace::make());
  TN_TRY(send_visitor(t, place.folder(), "the other process"));
  same_ids(t, found, TN_TRY(published(FolderStore(place.folder()), t.settings().patience_ns)),
           "in another process");
  TN_TRY(t.device());
  same_ids(t, found, TN_TRY(ids(t)), words("after device ", t.settings().device, " was opened").c_str());
  return {};
}

}  // namespace tenon::conform
