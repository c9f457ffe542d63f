// SPDX-License-Identifier: Apache-2.0
// context.hpp: what a case sees: the plugin, its expectations, its random numbers.
//
// Invariant: every call into the plugin goes through `call`, which also holds the plugin to the rules of errors: a code
// of the ABI, the same code inside the tn_error, a message, a domain, and an error left alone on TN_OK.
#pragma once

#include "conformance/breadcrumb.hpp"
#include "conformance/judging.hpp"
#include "conformance/library.hpp"
#include "conformance/random.hpp"
#include "conformance/words.hpp"

#include <tenon/result.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tenon::conform {

class Device;
struct Case;

// What a run asks of every case.
struct Settings {
  std::string plugin{};  // the library's file
  uint32_t device = 0;   // ordinal
  bool quick = false;    // small counts and sizes
  uint64_t seed = 1;
  uint64_t patience_ns = 10'000'000'000;  // longest wait inside a case before it says what it waited for
  // The same for what moves gigabytes: pages that nobody has touched yet come slowly.
  uint64_t long_patience_ns() const noexcept { return 20 * patience_ns; }
  std::map<std::string, std::string> options{};  // for the plugin, through the host
  Judging judging{};                             // as the vendor declares
};

// What became of a case, before the vendor's declarations are looked at.
enum class Outcome { passed, failed, skipped, unsupported };

struct Finding {
  Outcome outcome = Outcome::passed;
  std::vector<std::string> failures{};
  std::vector<std::string> warnings{};
  std::string reason{};  // of a skip
  std::string tag{};     // what it is about, or what is unsupported: "stream.promise", "memory.managed"
  std::string eased{};   // what only the vendor's tolerance let pass; empty: nothing
  uint64_t checks = 0;   // expectations looked at
  uint64_t drawn = 0;    // digest of the random numbers drawn
};

class Context {
 public:
  Context(const Settings& settings, Random random, const Case* wanted = nullptr);
  ~Context();  // defined where Device is known
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Counts a failure told by `parts` unless `good`. Returns `good`. [any-thread; does not block]
  template <class... Parts>
  bool check(bool good, const Parts&... parts) {
    checks_.fetch_add(1, std::memory_order_relaxed);
    if (!good) fail(words(parts...));
    return good;
  }
  // The same as a Status: TN_TRY(t.require(…)) leaves the case. [any-thread; does not block]
  template <class... Parts>
  Status require(bool good, const Parts&... parts) {
    checks_.fetch_add(1, std::memory_order_relaxed);
    return good ? Status() : Status(TN_INTERNAL, words(parts...));
  }
  // What `f` fails with, told to the caller instead of counting: for asking again in a simpler way. Should the process die
  // in it, `scene` is told with the call. [case's thread]
  template <class F>
  std::vector<std::string> aside(std::string scene, F&& f) {
    std::vector<std::string> out;
    const Aside scope(*this, out, std::move(scene));
    std::forward<F>(f)();
    return out;
  }
  void fail(std::string story);
  void warn(std::string story);
  // Tells that results passed by the vendor's tolerance alone. [case's thread]
  void ease(std::string story) { finding_.eased = std::move(story); }
  // Leaves the case because the machine lacks something. [case's thread]
  Status skip(std::string reason);
  // Leaves the case because the plugin lacks `tag`; the vendor explains it in capabilities.toml. [case's thread]
  Status unsupported(std::string tag, std::string reason);
  // Goes on when the plugin has `tag`, which the case is about; leaves it as unsupported otherwise. [case's thread]
  Status needs(bool there, std::string tag, std::string reason);

  // Calls into the plugin: `f` takes a tn_error* and returns a code. [any-thread]
  template <class F>
  Status call(std::string_view what, F&& f) {
    tn_error error = marked_error();
    const int32_t code = [&] {
      const Breadcrumb here(scene_.empty() ? std::string(what) : words(what, " for ", scene_));
      return std::forward<F>(f)(&error);
    }();
    return judge(what, code, error);
  }
  // A call that must fail with `code`. [any-thread]
  template <class F>
  bool refuses(int32_t code, std::string_view what, F&& f) {
    const Status said = call(what, std::forward<F>(f));
    return check(said.code() == code, what, ": expected ", code_name(code), ", got ",
                 said.ok() ? "TN_OK" : said.message());
  }
  // A call that must succeed. [any-thread]
  template <class F>
  bool accepts(std::string_view what, F&& f) {
    const Status said = call(what, std::forward<F>(f));
    return check(said.ok(), what, " must succeed: ", said.message());
  }

  const Settings& settings() const noexcept { return settings_; }
  // The case that runs; null outside of one.
  const Case* wanted() const noexcept { return wanted_; }
  bool quick() const noexcept { return settings_.quick; }
  Random& random() noexcept { return random_; }
  Host& host() noexcept { return *host_; }

  // The library, opened on first use; the plugin, entered on first use with `host()`. [case's thread; may fail]
  Result<Library> library();
  Result<const Tables*> tables();
  // Enters with a host of the case's own; comes before `tables`, in a case that is alone. [case's thread; may fail]
  Result<const Tables*> enter(const tn_host& host);
  // Leaves the case as skipped where this machine lacks the device under test. [case's thread; may fail]
  Status present();
  // The device under test, opened on first use and closed when the case is over. [case's thread; may fail]
  Result<Device*> device();

  // Ends the case with what it returned; closes the device. [case's thread]
  Finding finish(Status returned);
  // Whether a call said TN_DEVICE_LOST, so that this process may have no device any more. [any-thread]
  bool lost_device() const noexcept { return lost_device_.load(std::memory_order_relaxed); }

 private:
  struct Aside {
    Aside(Context& context, std::vector<std::string>& list, std::string scene) : t(context) {
      t.aside_ = &list;
      t.scene_ = std::move(scene);
    }
    ~Aside() {
      t.aside_ = nullptr;
      t.scene_.clear();
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    Context& t;
  };
  static tn_error marked_error() noexcept;
  Status judge(std::string_view what, int32_t code, const tn_error& error);
  void close_device();

  Settings settings_;
  Random random_;
  const Case* wanted_;
  Host* host_;  // one per process, never destroyed
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<std::string>* aside_ = nullptr;
  std::string scene_{};
  Finding finding_;
  std::atomic<uint64_t> checks_{0};
  std::atomic<bool> lost_device_{false};
};

}  // namespace tenon::conform
