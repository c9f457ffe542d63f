// SPDX-License-Identifier: Apache-2.0
// policies.cpp: contests: every rule on every course, over every link, one step each in turn.
//
// Invariant: a row stands for each rival, with its figures or with why it has none; all have the same runs of ours.
#include "../row.hpp"
#include "crew.hpp"
#include "panel.hpp"
#include "parts.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace bench {
namespace {

using tenon::test::Networks;
using Options = std::vector<std::string>;

constexpr double backward_ms = 200;
constexpr int fewest_rounds = 9, most_rounds = 21;
constexpr double worth_telling = 1.03;  // of streams over one another
constexpr double patience_ms = 75'000;  // of the rounds of one contest

struct Link {
  std::string name{}, rate{};  // no rate: one host
  double bits_per_ms = 0;      // of all connections
  bool of_flows = false;       // the rate is that of a connection; else one socket can have all of it
};
const Link one_host{"one_host", "", 0}, fast{"10Gbit", "10gbit", 10e6}, slow{"1Gbit", "1gbit", 1e6};
const Link flows{"1Gbit_a_flow", "1gbit", 3e6, true};  // of which as many as there are streams

// No step of two ranks is shorter: gradients leave behind forward, and each has to send as much as there is. 0: not known.
double floor_ms(const Shape& shape, const Link& link) {
  if (link.bits_per_ms == 0) return 0;
  double bits = 0;
  for (const Parameter& one : shape.parameters) bits += 32 * static_cast<double>(one.elements);
  return backward_ms / 2 + std::max(backward_ms, bits / link.bits_per_ms);
}

double median(std::vector<double> figures) {
  const auto middle = figures.begin() + static_cast<ptrdiff_t>(figures.size() / 2);
  std::nth_element(figures.begin(), middle, figures.end());
  return *middle;
}

// What of ours is as far from its median as the limit's runs are from ours beside them: neighbours in time meet the same machine.
double limit_beside(const std::vector<double>& ours, const std::vector<double>& limit) {
  std::vector<double> parts;
  for (size_t i = 0; i < std::min(ours.size(), limit.size()); ++i) parts.push_back(limit[i] / ours[i]);
  return parts.empty() ? 0 : median(std::move(parts)) * median(ours);
}

void race(std::vector<Crew>& crews) {
  for (Crew& crew : crews) crew.prepare();
  double spent = 0;
  for (int round = 0; round < most_rounds && (round < fewest_rounds || spent < patience_ms); ++round) {
    for (Crew& crew : crews) {
      crew.step();
      if (crew.why().empty()) spent += crew.steps.back();
    }
  }
}

void tell(const std::string& name, const std::vector<Crew>& crews, std::vector<double> Crew::*figures,
          double floor) {
  for (size_t i = 1; i < crews.size(); ++i) {
    if (crews[i].is_limit()) continue;
    Row row{.name = name, .peer = crews[i].name(), .unit = "ms", .ours = crews[0].*figures, .median = true};
    row.limit = floor;
    row.why_no_peer = crews[i].why();
    if (row.why_no_peer.empty()) row.theirs = crews[i].*figures;
    print(row);
  }
}

// No step is shorter than `floor`, or than that of a crew that is the limit. `predicted`: the first one says what it expects.
void contest(const std::string& name, std::vector<Crew>& crews, double floor, bool predicted) {
  std::fprintf(stderr, "bench overlap: %s\n", name.c_str());
  race(crews);
  if (!crews.front().why().empty()) return left_out(name, crews.front().why());
  for (const Crew& crew : crews) {
    if (!crew.is_limit()) continue;
    if (crew.why().empty())
      floor = std::max(floor, limit_beside(crews.front().steps, crew.steps));
    else
      note(name + ", the limit is that of the wire: " + crew.why());
  }
  tell(name, crews, &Crew::steps, floor);
  tell(name + "/exposed", crews, &Crew::exposed, 0);
  if (predicted)
    print({.name = name + "/prediction_off", .unit = "%", .ours = crews.front().off, .median = true});
}

// Calls `body` with the networks of a link, or says why they are not there.
void over(const Link& link, const std::string& name, const std::function<void(const Networks*)>& body) {
  if (link.rate.empty()) return body(nullptr);
  const Networks networks;
  if (!networks) return left_out(name, "no network namespaces here: it needs root and `ip netns`");
  if (!(link.of_flows ? networks.shape_flows(link.rate) : networks.shape(link.rate)))
    return left_out(name, "no wire of a given speed here: it needs `tc`");
  body(&networks);
}

void all_rules(const Course& course, const std::string& name, const Link& link, const Networks* networks,
               double floor) {
  std::vector<Crew> crews;
  const auto add = [&](const char* who, const Options& options) {
    crews.push_back(Crew::ours(who, course, networks, options));
  };
  add("ours", {});
  add("no overlap", {"bucket_mode=none"});
  add("per tensor", {"bucket_mode=per_tensor"});
  add("DDP's rule", {"bucket_mode=ddp"});
  add("Paddle's rule", {"bucket_mode=paddle"});
  add("MG-WFBP's rule", {"bucket_mode=mg_wfbp"});
  crews.push_back(Crew::torch(course, networks));
  if (networks != nullptr && !link.of_flows) crews.push_back(Crew::bare(course, *networks));
  contest(name, crews, floor, networks != nullptr);
}

// (c) three streams for communication, (b) one, (a) none of its own: the host awaits each bucket before it goes on.
void all_figures(const Course& course, const std::string& name, const Networks* networks, double floor) {
  const auto with = [](const Options& more) {
    Options out{"bucket_mode=documents", "fuse_grad_size_in_MB=16"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const Options a = with({"nccl_comm_num=1", "sync_nccl_allreduce=true"}), b = with({"nccl_comm_num=1"}),
                c = with({"nccl_comm_num=3"});
  std::vector<Crew> crews;
  crews.push_back(Crew::ours("three streams", course, networks, c));
  crews.push_back(Crew::ours("one stream", course, networks, b));
  crews.push_back(Crew::ours("no overlap", course, networks, a));
  contest(name, crews, floor, false);
  if (!crews.front().why().empty()) return;
  const double ratio = median(crews[1].steps) / median(crews[0].steps);
  char text[120];
  std::snprintf(text, sizeof text, "%s: three streams are %.2f times as fast as one%s", name.c_str(), ratio,
                ratio < worth_telling ? ": one is enough to fill this link" : "");
  note(text);
  crews.clear();  // who waits for a question may still take turns of a processor
  panel(name, "(a) no overlap", course, networks, a);
  panel(name, "(b) one stream for gradients", course, networks, b);
  panel(name, "(c) three streams for gradients", course, networks, c);
}

}  // namespace

void policies(const Asked& asked) {
  note("two ranks, a processor each; computing is arithmetic in registers, " +
       std::to_string(static_cast<int>(backward_ms)) +
       " ms of backward and half as much forward, spread over the gradients as the model's is");
  note("prediction_off: of a step's backward, sums and averages, in a step that was not planned with");
  for (const Shape& shape : {resnet50(), decoder()}) {
    const Course course(shape, backward_ms);
    for (const Link& link : {one_host, fast, slow, flows}) {
      const std::string name = shape.name + "/" + link.name;
      if (!asked(name)) continue;
      over(link, name,
           [&](const Networks* networks) { all_rules(course, name, link, networks, floor_ms(shape, link)); });
    }
  }
}

void figures(const Asked& asked) {
  const Shape shape = resnet50();
  const Course course(shape, backward_ms);
  for (const Link& link : {fast, slow, flows}) {
    const std::string name = "streams/" + link.name;
    if (!asked(name)) continue;
    over(link, name,
         [&](const Networks* networks) { all_figures(course, name, networks, floor_ms(shape, link)); });
  }
}

}  // namespace bench
