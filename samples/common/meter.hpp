// SPDX-License-Identifier: Apache-2.0
// meter.hpp: what each step took and what came of it, as curves and as lines; and a bar of the steps that are done, where somebody is
// looking.
#pragma once

#include "common/curves.hpp"
#include "common/score.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace sample {

// One thread.
class Meter {
 public:
  // `items` of a step on this rank, called `what`; a bar of all `steps` where `shows` and standard error is a terminal.
  Meter(std::string what, int64_t items, uint64_t steps, bool shows)
      : items_(static_cast<double>(items)),
        steps_(steps),
        shows_(shows && isatty(STDERR_FILENO) != 0),
        what_(std::move(what)),
        speed_{what_ + "/s of this rank", {}} {}

  void begin() { start_ = std::chrono::steady_clock::now(); }
  // A step ended; a loss that was not fetched is that of the step before.
  void end(bool is_fetched, float loss) {
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const bool keeps = !is_fetched && !loss_.values.empty();
    loss_.values.push_back(keeps ? loss_.values.back() : static_cast<double>(loss));
    speed_.values.push_back(items_ / seconds_);
    if (shows_) show();
  }

  // Whether the step that comes next has a line.
  bool tells_next() const { return (done() + 1) % told_every == 0 || done() + 1 == steps_; }
  // The line of the step that ended last; `scores` has a row for each label.
  void tell(uint32_t rank, const std::vector<float>& scores, const std::vector<int32_t>& labels) const {
    std::printf("worker %u, step %llu, cost %.4f s, loss %.4f, acc1 %.3f, acc5 %.3f, %.1f %s/s\n", rank,
                static_cast<unsigned long long>(done()), seconds_, loss_.values.back(),
                accuracy(scores, labels, 1), accuracy(scores, labels, 5), items_ / seconds_, what_.c_str());
  }
  // TN_INVALID naming the file. [may block; may fail]
  tenon::Status write(const std::string& file) const { return write_curves(file, {loss_, speed_}); }

 private:
  static constexpr uint64_t told_every = 10;

  uint64_t done() const { return loss_.values.size(); }
  void show() const {
    std::string bar(40, '.');
    std::fill_n(bar.begin(), std::min<uint64_t>(40, 40 * done() / steps_), '#');
    std::fprintf(stderr, "\r[%s] %llu of %llu%s", bar.c_str(), static_cast<unsigned long long>(done()),
                 static_cast<unsigned long long>(steps_), done() == steps_ ? "\n" : "");
  }

  double items_;
  uint64_t steps_;
  bool shows_;
  std::string what_;
  double seconds_ = 0;
  std::chrono::steady_clock::time_point start_{};
  Curve loss_{"loss", {}}, speed_;
};

}  // namespace sample
