// SPDX-License-Identifier: Apache-2.0
// passes.cpp: several passes in the one order that is right, and what they did as text.
//
// Why this order: what goes needs no type; types say what a device has an attention for, what padding is worth, and whether a value can
// be made again; padded products are no attention any more; all of these make nodes that layouts go through; and only when all nodes are
// there can it be said which memory they share.
#include <tenon/passes.hpp>

namespace tenon::passes {

Result<Rewritten> run(Rewritten work, const Options& options) {
  if (options.prune) work = TN_TRY(prune(std::move(work), *options.prune));
  if (options.amp) work = TN_TRY(amp(std::move(work), *options.amp));
  if (options.attention) work = TN_TRY(attention(std::move(work), *options.attention));
  if (options.pad) work = TN_TRY(pad(std::move(work), *options.pad));
  if (options.recompute) work = TN_TRY(recompute(std::move(work), *options.recompute));
  if (options.layout) work = TN_TRY(layout(std::move(work), *options.layout));
  if (options.addto) work = TN_TRY(addto(std::move(work), *options.addto));
  if (options.in_place) work = TN_TRY(in_place(std::move(work), *options.in_place));
  TN_TRY(work.graph.check());
  return work;
}

std::string explain(std::span<const Note> notes) {
  std::string out;
  for (const Note& note : notes) {
    out += (note.applied ? "+ " : "- ") + note.pass + ": ";
    out += (note.where.empty() ? "" : note.where + ": ") + note.what + ": " + note.reason + "\n";
  }
  return out;
}

}  // namespace tenon::passes
