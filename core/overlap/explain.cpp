// SPDX-License-Identifier: Apache-2.0
// explain.cpp: a plan in words: a line for a log, and a table.
#include "base/text.hpp"
#include "overlap/state.hpp"
#include "overlap/words.hpp"

#include <algorithm>
#include <cstdio>

namespace tenon {
namespace overlap {

std::string called(const Bucket& bucket, const StepProfile& step) {
  if (bucket.members.empty()) return "the tail";
  const auto told = [&](const BucketMember& member) {
    const Gradient& gradient = step.gradients[member.gradient];
    const bool part = member.bytes < bytes(gradient.dtype, gradient.elements);
    return base::printable(gradient.name, 40) + (part ? " (part)" : "");
  };
  const std::string first = told(bucket.members.front());
  return bucket.members.size() == 1 ? first : first + " … " + told(bucket.members.back());
}

namespace {

// Columns with a width each; counts and times stand to the right.
std::string row(const std::vector<std::string>& cells, const std::vector<int>& widths) {
  std::string out;
  for (size_t i = 0; i < cells.size(); ++i) {
    // "µ" and "…" are two and three bytes wide on paper that has one column for each.
    const auto length = static_cast<int>(
        std::count_if(cells[i].begin(), cells[i].end(), [](char c) { return (c & 0xC0) != 0x80; }));
    const std::string space(static_cast<size_t>(std::max(0, std::abs(widths[i]) - length)), ' ');
    out += widths[i] < 0 ? space + cells[i] : cells[i] + space;
    if (i + 1 < cells.size()) out += "  ";
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out + "\n";
}

std::string types_of(const Bucket& bucket) {
  std::vector<std::string> names;
  for (const BucketView& view : bucket.views) {
    const std::string type(name(view.dtype));
    if (std::find(names.begin(), names.end(), type) == names.end()) names.push_back(type);
  }
  return base::join(names, "+");
}

std::string table(const CommPlan& plan) {
  const bool sharded = plan.options().sharded;
  std::vector<int> widths{-3, -6, -6, -9, 8, 7, -9, -9, -9, 0};
  std::vector<std::string> head{"#",     "stream", "grads",  "bytes", "type",
                                "route", "ready",  "starts", "ends",  ""};
  if (sharded) widths.insert(widths.end() - 1, -10), head.insert(head.end() - 1, "gathered");
  head.back() = "from … to";
  std::string out = row(head, widths);
  for (size_t i = 0; i < plan.buckets().size(); ++i) {
    const Bucket& bucket = plan.buckets()[i];
    std::vector<std::string> cells{std::to_string(i),
                                   std::to_string(bucket.stream),
                                   std::to_string(bucket.members.size()),
                                   base::bytes_in_words(bucket.bytes),
                                   types_of(bucket),
                                   std::string(sharded ? "-" : name(bucket.route)),
                                   base::time_in_words(bucket.ready_ns),
                                   base::time_in_words(bucket.start_ns),
                                   base::time_in_words(bucket.end_ns)};
    if (sharded) cells.push_back(base::time_in_words(bucket.gather_end_ns));
    cells.push_back(called(bucket, plan.step()));
    out += row(cells, widths);
  }
  return out;
}

std::string totals(const CommPlan& plan, const Contention& contention, const Division& division) {
  const CommPrediction& time = plan.predicted();
  const double hidden =
      time.communication_ns > 0 ? std::max(0.0, 1 - time.exposed_ns / time.communication_ns) * 100 : 100;
  char percent[16];
  std::snprintf(percent, sizeof percent, "%.0f %%", hidden);
  const Arena& arena = plan.arena();
  const char* const what =
      plan.step().forward_ns > 0 ? "step " : "backward and sums ";  // the rest is not known
  std::string out = std::string("predicted  ") + what + base::time_in_words(time.step_ns) +
                    "; communication " + base::time_in_words(time.communication_ns) + ", " + percent +
                    " hidden, " + base::time_in_words(time.exposed_ns) + " exposed\n";
  if (contention) {
    char text[120];
    std::snprintf(
        text, sizeof text,
        ": bytes take %.1f times as long beside it, and hold it up by %.0f %% of what they take alone\n",
        contention.slowed, contention.occupies * 100);
    out += "backward   over at " + base::time_in_words(time.backward_ns) + text;
    if (contention.delay_ns > 0)
      out += "           a collective's bytes begin to move " + base::time_in_words(contention.delay_ns) +
             " later beside it\n";
  }
  if (division) {
    out += "averages   there at " + base::time_in_words(time.averaged_ns) + ", the last sum at " +
           base::time_in_words(time.end_ns) + ": divided " +
           (division.by_bucket ? "bucket by bucket\n" : "when the last one has told by what\n");
  }
  out += "arena      " + base::bytes_in_words(arena.bytes) + ", " + base::bytes_in_words(arena.gap_bytes) +
         " of it gaps, " + base::bytes_in_words(plan.tail().bytes) + " the tail; " +
         std::to_string(arena.copied_bytes) + " bytes copied\n";
  out += "updates    " +
         (plan.gate().empty() ? std::string("start bucket by bucket")
                              : "wait for the last bucket: " + plan.gate()) +
         "\n";
  return out;
}

}  // namespace
}  // namespace overlap

std::string CommPlan::summary() const {
  size_t sparse = 0;
  for (const Gradient& gradient : step().gradients) sparse += gradient.sparse ? 1 : 0;
  std::string out = std::to_string(step().gradients.size() - sparse) +
                    (options().sharded ? " reduce-scatter" : " all-reduce") + " operators, after fusion " +
                    std::to_string(buckets().size());
  if (sparse > 0) out += "; " + base::counted(sparse, "sparse gradient") + " not fused";
  return out;
}

std::string CommPlan::explain() const {
  char hash_text[24];
  std::snprintf(hash_text, sizeof hash_text, "%016llx", static_cast<unsigned long long>(hash()));
  std::string out = (state_ ? state_->target : std::string("no plan")) + ": " + summary() + "; mode " +
                    std::string(name(options().mode)) + ", " + base::counted(streams(), "stream") + ", " +
                    base::counted(ranks(), "rank");
  if (options().use_hierarchical_allreduce && state_->ranks_per_group > 0)
    out += " in " + base::counted(ranks() / state_->ranks_per_group, "group") + " of " +
           std::to_string(state_->ranks_per_group);
  out += ", plan " + std::string(hash_text) + "\n" +
         overlap::totals(*this, state_ ? state_->contention : Contention{},
                         state_ ? state_->division : Division{});
  for (const Note& note : notes())
    out += "option     " + note.option + " → " + note.effective + ": " + note.reason + "\n";
  return out + overlap::table(*this);
}

}  // namespace tenon
