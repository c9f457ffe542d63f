// SPDX-License-Identifier: Apache-2.0
// gpu.hpp: what the handles of one GPU share beyond its context: small memory, staging, promise words, exports, loaded code.
//
// Invariant: code is unloaded only when no stream of this device may still run it. Finding that out never blocks. The unload may
// wait for what another thread has enqueued meanwhile, a wait for a promise too; so while ranks are joined, whose streams wait for
// each other's threads, nothing is unloaded. All of it is loaded ahead: a driver left to load an entry at its first launch may wait
// for every stream, one that waits for this thread too.
#pragma once

#include "ipc_exports.hpp"
#include "promises.hpp"
#include "staging.hpp"

#include <map>
#include <set>
#include <utility>
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
  ipc::Exports& exports() noexcept { return exports_; }

  // The kernels that come with the plugin, loaded as the device is opened. [any-thread; does not block; cannot fail]
  CUfunction fill() const noexcept { return fill_; }
  CUfunction copy_box() const noexcept { return copy_box_; }
  CUfunction pull() const noexcept { return pull_; }

  // Loads the reductions over ranks, all of them; the first call does. Who joins ranks calls it before one of them waits.
  // [any-thread; may block; may fail]
  Status load_reductions();
  // One of them, once they are loaded; null where there is none. [any-thread; does not block; cannot fail]
  CUfunction reduction(uint32_t dtype, uint32_t reduce) const noexcept;
  // An entry of a module of this device, ready to be launched; the context is current. [any-thread; may block; may fail]
  Result<CUfunction> entry(CUmodule module, const char* name) const;

  // While ranks that share this process are joined no code is unloaded, and page-locked memory is kept (pins.hpp): a driver that
  // ends either waits for all streams, and may wait for one that waits for the rank which asks. An unload under way is waited for.
  // [any-thread; may block; cannot fail]
  void rank_joins();
  void rank_leaves();

  // Held by who launches a group of a library's communicator: all of this device are launched in one order.
  std::mutex& group_order() noexcept { return group_order_; }

  // Gives the stream a kernel that does nothing. A driver may let a stream whose first work is a word that others wait for lie
  // behind those who wait. The context is current, and the stream is not captured. [any-thread; may block; may fail]
  Status begin(CUstream stream);
  // A new stream that has begun, and has entered. The context is current. [any-thread; may block; may fail]
  Result<CUstream> start_stream(uint32_t priority);

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
  ipc::Exports exports_{};
  std::mutex group_order_;
  std::mutex reductions_mutex_;  // of loading them
  CUmodule ranks_ = nullptr;
  std::map<std::pair<uint32_t, uint32_t>, CUfunction> reductions_{};  // by type and reduction
  std::mutex mutex_;                                                  // of what follows
  std::set<CUstream> streams_{};
  std::vector<CUmodule> retired_{};
  bool strays_ = false;
  size_t ranks_joined_ = 0;
  CUmodule own_ = nullptr;  // with its entries
  CUfunction fill_ = nullptr, copy_box_ = nullptr, pull_ = nullptr;
};

}  // namespace tenon::cuda
