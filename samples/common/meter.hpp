// SPDX-License-Identifier: Apache-2.0
// meter.hpp: what each step took and what came of it, as curves; and a bar of the steps that are done, where somebody is looking.
#pragma once

#include "common/curves.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

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
        speed_{std::move(what) + "/s of this rank", {}} {}

  void begin() { start_ = std::chrono::steady_clock::now(); }
  // A step ended; a loss that was not fetched is that of the step before.
  void end(bool is_fetched, float loss) {
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const bool keeps = !is_fetched && !loss_.values.empty();
    loss_.values.push_back(keeps ? loss_.values.back() : static_cast<double>(loss));
    speed_.values.push_back(items_ / seconds_);
    if (shows_) show(loss_.values.size());
  }

  double seconds() const { return seconds_; }  // of the last step
  double speed() const { return items_ / seconds_; }
  // TN_INVALID naming the file. [may block; may fail]
  tenon::Status write(const std::string& file) const { return write_curves(file, {loss_, speed_}); }

 private:
  void show(uint64_t done) const {
    std::string bar(40, '.');
    std::fill_n(bar.begin(), std::min<uint64_t>(40, 40 * done / steps_), '#');
    std::fprintf(stderr, "\r[%s] %llu of %llu%s", bar.c_str(), static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(steps_), done == steps_ ? "\n" : "");
  }

  double items_;
  uint64_t steps_;
  bool shows_;
  double seconds_ = 0;
  std::chrono::steady_clock::time_point start_{};
  Curve loss_{"loss", {}}, speed_;
};

}  // namespace sample
