// SPDX-License-Identifier: Apache-2.0
// gpu.hpp: what the handles of one GPU share beyond its context: small memory, staging, promise words, loaded code.
//
// Invariant: code is unloaded only when no stream of this device may still run it, and finding that out never blocks. All of it is
// loaded ahead: a driver left to load an entry at its first launch may wait for every stream, one that waits for this thread too.
#pragma once

#include "promises.hpp"
#include "staging.hpp"

#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace tenon::cuda {

class Gpu;

// A piece of device code. It outlives its kernel for as long as a launch may be on its way.
class Module {
 public:
  // [any-thread; may block; may fail]
  static Result<std::shared_ptr<Module>> load(std::shared_ptr<Gpu> gpu, const void* image);
  Module(std::shared_ptr<Gpu> gpu, CUmodule native) : gpu_(std::move(gpu)), native_(native) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  // TN_NOT_FOUND. [any-thread; may block; may fail]
  Result<CUfunction> function(const char* name) const;

 private:
  std::shared_ptr<Gpu> gpu_;
  CUmodule native_;
};

class Gpu {
 public:
  // [any-thread; may block; may fail]
  static Result<std::shared_ptr<Gpu>> open(std::shared_ptr<Context> context);
  explicit Gpu(std::shared_ptr<Context> context)
      : context_(std::move(context)),
        slabs_(std::make_shared<Slabs>(context_)),
        words_(context_),
        staging_(context_) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  const std::shared_ptr<Context>& context() const noexcept { return context_; }
  const std::shared_ptr<Slabs>& slabs() const noexcept { return slabs_; }
  Words& words() noexcept { return words_; }
  Staging& staging() noexcept { return staging_; }

  // The kernels that come with the plugin, loaded as the device is opened. [any-thread; does not block; cannot fail]
  CUfunction fill() const noexcept { return fill_; }
  CUfunction copy_box() const noexcept { return copy_box_; }
  CUfunction pull() const noexcept { return pull_; }

  // Code that stays for the device's life: what `image` gives to the first who asks for `key`. All of its entries are made ready
  // then, and told in the order of `names`: who comes later makes no call that could wait for a stream.
  // [any-thread; may block; may fail]
  Result<std::span<const CUfunction>> resident(uint32_t key, std::span<const char* const> names,
                                               const std::function<Result<std::string>()>& image);
  // An entry of a module of this device, ready to be launched; the context is current. [any-thread; may block; may fail]
  Result<CUfunction> entry(CUmodule module, const char* name) const;

  // Held by who launches a group of a library's communicator: all of this device are launched in one order.
  std::mutex& group_order() noexcept { return group_order_; }

  // The streams that may be running code of this device.
  void enter(CUstream stream);
  void leave(CUstream stream);
  // A stream that was left with work on its way: nothing is unloaded from here on before the device is closed.
  void leave_busy(CUstream stream);

 private:
  friend class Module;
  Status load_own();
  void retire(CUmodule module) noexcept;
  bool all_idle() const;

  static constexpr size_t patience = 16;  // modules kept before it is worth looking

  std::shared_ptr<Context> context_;
  std::shared_ptr<Slabs> slabs_;
  Words words_;
  Staging staging_;
  std::mutex group_order_;
  // To load may wait for streams, and these for a thread that wants other code: nobody but who wants this waits for it.
  struct Resident {
    std::mutex mutex;
    CUmodule module = nullptr;
    std::vector<CUfunction> entries{};
  };
  std::mutex resident_mutex_;  // of the map, never held to load
  std::map<uint32_t, Resident> resident_{};
  std::mutex mutex_;  // of what follows
  std::set<CUstream> streams_{};
  std::vector<CUmodule> retired_{};
  bool strays_ = false;
  CUmodule own_ = nullptr;  // with its entries
  CUfunction fill_ = nullptr, copy_box_ = nullptr, pull_ = nullptr;
};

}  // namespace tenon::cuda
