// SPDX-License-Identifier: Apache-2.0
// protocol.cpp: requests and messages as JSON text. Bytes that are no UTF-8 are replaced, never fatal.
#include "conformance/protocol.hpp"

#include "conformance/json.hpp"

namespace tenon::conform {

namespace {

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void shorten(std::string& text, size_t limit) {
  if (text.size() <= limit) return;
  text.resize(limit);
  text += " …";
}

Finding shortened(Finding finding) {
  for (std::string& story : finding.failures) shorten(story, 1500);
  for (std::string& story : finding.warnings) shorten(story, 1000);
  shorten(finding.reason, 1500);
  return finding;
}

template <class T, class Read>
Result<T> guarded(std::string_view text, Read&& read) {
  try {
    return read(Json::parse(text));
  } catch (const std::exception& error) {
    return Status(TN_INVALID, words("not a message of the conformance protocol: ", error.what()));
  }
}

Request read_request(const Json& json) {
  Request out;
  Settings& s = out.settings;
  s.plugin = json.at("plugin");
  s.device = json.at("device");
  s.quick = json.at("quick");
  s.seed = json.at("seed");
  s.patience_ns = json.at("patience_ns");
  s.options = json.at("options").get<std::map<std::string, std::string>>();
  s.judging = judging_from(json.at("judging"));
  out.round = json.at("round");
  const Json& seat = json.at("seat");
  out.seat = {seat.at("meeting"), seat.at("rank"), seat.at("size"), seat.at("folder")};
  out.describe = json.at("describe");
  out.perf = json.at("perf");
  out.cases = json.at("cases").get<std::vector<std::string>>();
  return out;
}

Message read_message(const Json& json) {
  Message out;
  out.kind = static_cast<Message::Kind>(json.at("kind").get<int>());
  out.sender = json.at("sender");
  out.name = json.at("name");
  if (out.kind == Message::Kind::end) {
    out.finding = finding_from(json.at("finding"));
    out.milliseconds = json.at("milliseconds");
  }
  if (out.kind == Message::Kind::description) out.description = description_from(json.at("description"));
  if (out.kind == Message::Kind::figure) out.figure = figure_from(json.at("figure"));
  return out;
}

}  // namespace

std::string encode(const Request& request) {
  const Settings& s = request.settings;
  return dump({{"plugin", s.plugin},
               {"device", s.device},
               {"quick", s.quick},
               {"seed", s.seed},
               {"patience_ns", s.patience_ns},
               {"options", s.options},
               {"judging", to_json(s.judging)},
               {"round", request.round},
               {"seat",
                {{"meeting", request.seat.meeting},
                 {"rank", request.seat.rank},
                 {"size", request.seat.size},
                 {"folder", request.seat.folder}}},
               {"describe", request.describe},
               {"perf", request.perf},
               {"cases", request.cases}});
}

std::string encode(const Message& message) {
  Json out{{"kind", static_cast<int>(message.kind)}, {"sender", message.sender}, {"name", message.name}};
  if (message.kind == Message::Kind::end) {
    out["finding"] = to_json(shortened(message.finding));
    out["milliseconds"] = message.milliseconds;
  }
  if (message.kind == Message::Kind::description) out["description"] = to_json(message.description);
  if (message.kind == Message::Kind::figure) out["figure"] = to_json(message.figure);
  return dump(out);
}

Result<Request> decode_request(std::string_view text) { return guarded<Request>(text, read_request); }

Result<Message> decode_message(std::string_view text) { return guarded<Message>(text, read_message); }

}  // namespace tenon::conform
