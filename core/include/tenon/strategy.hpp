// SPDX-License-Identifier: Apache-2.0
// strategy.hpp: every choice of how training is made to run, as one struct and as a TOML file.
//
//   auto strategy = TN_TRY(tenon::Strategy::load("s.toml"));
//   TN_TRY(strategy.take_environment());   // TENON_NCCL_COMM_NUM=2, FLAGS_fuse_parameter_memory_size=16
//   strategy.enable_pad = true;            // code has the last word
//   std::fputs(strategy.explain().c_str(), stdout);
//   auto sync = TN_TRY(tenon::GradientSync::create(device, comm, parameters, strategy.overlap(), strategy.sync()));
//
// Invariant: a file either sets what it names or is refused: an unknown key, a wrong type or a value out of range is an
// error with its place, never silence. parse(text()) is the same strategy. What is asked for and cannot be is in effective().
#pragma once

#include <tenon/export.hpp>
#include <tenon/fusion.hpp>
#include <tenon/gradient_sync.hpp>
#include <tenon/overlap.hpp>
#include <tenon/passes.hpp>
#include <tenon/result.hpp>
#include <tenon/training.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The members are the rows of strategy.def, which says what each does and what else it is called. In a file an option
// stands under any of the headings there, under one of the documents (DistributedStrategy, BuildStrategy or build_strategy,
// ExecutionStrategy or execution_strategy), under `environment`, or under none. A later source wins: default, preset, file,
// FLAGS_… of the environment, TENON_… of the environment, code.
struct Strategy {
  using Count = uint32_t;
  using Real = double;
  using Text = std::string;
  using AutoCount = std::optional<uint32_t>;  // nothing: "auto"
  using AutoBool = std::optional<bool>;
  using Names = std::vector<std::string>;
  using Groups = std::vector<Names>;
  using Level = passes::AmpLevel;
  static constexpr std::nullopt_t automatic = std::nullopt;
  static constexpr double above_zero = std::numeric_limits<double>::min();

#define TN_OPTION(section, type, member, name, aliases, standard, ...) type member = standard;
#include <tenon/strategy.def>
#undef TN_OPTION

  // "tenon", which is all defaults, or "documents": those of the documents Tenon was founded on. TN_NOT_FOUND with the names
  // there are. [any-thread; does not block; may fail]
  TN_API static Result<Strategy> preset(std::string_view name);
  // Defaults, and what `text` sets. TN_INVALID naming `origin`, the key, its value and the remedy.
  // [any-thread; does not block; may fail]
  TN_API static Result<Strategy> parse(std::string_view text, const std::string& origin = "strategy");
  // The same from a file. TN_NOT_FOUND. [any-thread; may block; may fail]
  TN_API static Result<Strategy> load(const std::string& path);

  // These set what they name and leave the rest. After a failure nothing has changed. `preset = "documents"` in a text
  // sets what no other source has set. Errors as above. [one thread; does not block; may fail]
  TN_API Status read(std::string_view text, const std::string& origin = "strategy");
  // [one thread; may block; may fail]
  TN_API Status read_file(const std::string& path);
  // One option by its name or an alias, from a word as people write it: "16", "auto", "exp,log". TN_INVALID; TN_NOT_FOUND
  // with the nearest name. [one thread; does not block; may fail]
  TN_API Status set(std::string_view name, std::string_view value, const std::string& by = "code");
  // Variables of this process that are an option's: FLAGS_… first, then TENON_… with the name in capitals. None of an
  // elevated process. [one thread, while no other changes the environment; does not block; may fail]
  TN_API Status take_environment();

  // All options with their values, as a file. [any-thread; does not block; cannot fail]
  TN_API std::string text() const;
  // Writes text(), in one step. TN_INVALID naming the path, or an option whose value is out of range.
  // [any-thread; may block; may fail]
  TN_API Status save(const std::string& path) const;
  // Whether code has left every option in its range. TN_INVALID naming the first that is not.
  // [any-thread; does not block; may fail]
  TN_API Status check() const;

  // What an option comes to, as far as that is known before there is a graph, a device or a communicator: CommPlan::notes,
  // passes::Note and FusionRefusal tell what those make of it.
  struct Effective {
    std::string section, option, asked;
    std::string holds;   // "no effect" for an option on which nobody acts
    std::string by;      // who set it last: "default", "preset documents", a file, "TENON_AMP", "code"
    std::string reason;  // why it is not as asked, "" when it is
  };
  // In the order of strategy.def. A value that code set to what it was is still that of its source.
  // [any-thread; does not block; cannot fail]
  TN_API std::vector<Effective> effective() const;
  // The same, a line each; "!" marks what somebody asked for and does not get. [any-thread; does not block; cannot fail]
  TN_API std::string explain() const;

  // For `fuse` and `plan`. A pattern that is switched off is named only where the target has it.
  // [any-thread; does not block; cannot fail]
  TN_API FusionOptions fusion(const FusionTarget& target) const;
  // For `passes::run`. [any-thread; does not block; cannot fail]
  TN_API passes::Options passes() const;
  // For GradientSync and plan_communication. [any-thread; does not block; cannot fail]
  TN_API OverlapOptions overlap() const;
  TN_API SyncOptions sync() const;
  // For training_graph: loss scaling, where amp computes in f16, stop_gradient, sync_batch_norm, uneven_batches. The optimizer and
  // the number of ranks are the caller's.
  // [any-thread; does not block; cannot fail]
  TN_API TrainingOptions training() const;
  // For RuntimeOptions::options: those that are not left to their default. [any-thread; does not block; cannot fail]
  TN_API std::map<std::string, std::string> runtime() const;

  struct Access;  // core/strategy

 private:
  struct Mark {
    std::string by, value;
  };
  std::vector<Mark> marks_{};  // one for each option, or none: who set it last, and to what
};

}  // namespace tenon
