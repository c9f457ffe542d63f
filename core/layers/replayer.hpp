// SPDX-License-Identifier: Apache-2.0
// replayer.hpp: one replay on its way: recorded numbers on one side, live handles on the other.
//
// Invariant: a step whose handles are not there is skipped, never guessed; whatever lives at the end is ended.
#pragma once

#include "layers/recording.hpp"

#include <tenon/replay.hpp>

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tenon::layers {

class Replayer {
 public:
  Replayer(const tn_plugin& plugin, const ReplayOptions& options, ReplayReport& report)
      : plugin_(plugin), options_(options), report_(report) {}
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;
  ~Replayer();

  void run(const recording::Recording& recording);

 private:
  using Id = recording::Id;
  struct LiveMemory {
    tn_memory* handle = nullptr;
    uint64_t bytes = 0;
  };
  struct LiveStream {
    tn_stream* handle = nullptr;
    tn_device* device = nullptr;
    std::map<uint64_t, uint64_t> values;            // recorded → ours
    std::set<uint64_t> open_promises;               // recorded values that nobody signalled yet
    std::vector<std::vector<std::byte>> downloads;  // that may still be filled
  };
  struct LiveKernel {
    tn_kernel* handle = nullptr;
    tn_device* device = nullptr;
    uint64_t workspace_bytes = 0;
    size_t binding_count = 0;
    std::map<Id, tn_memory*> workspaces;  // by stream
  };

  void step(const recording::Plugin& s);
  void step(const recording::Open& s);
  void step(const recording::Close& s);
  void step(const recording::Alloc& s);
  void step(const recording::Free& s);
  void step(const recording::Create& s);
  void step(const recording::Destroy& s);
  void step(const recording::Copy& s);
  void step(const recording::Fill& s);
  void step(const recording::Record& s);
  void step(const recording::Wait& s);
  void step(const recording::Reached& s);
  void step(const recording::Compile& s);
  void step(const recording::Launch& s);
  void step(const recording::DestroyKernel& s);
  void step(const recording::HostCall& s);
  void step(const recording::Promise& s);
  void step(const recording::Signal& s);
  void step(const recording::Poke& s);
  void step(const recording::Unknown& s);

  // Makes one call: counts it and compares its code with the recorded one. Whether it succeeded.
  template <class Function, class... Arguments>
  bool call(const char* name, int32_t recorded, Function function, Arguments... arguments);
  void differ(const std::string& what);
  void skip(const std::string& why);

  LiveStream* stream(Id id);
  bool inside(const recording::SpanNote& span);
  tn_span span(const recording::SpanNote& note, std::vector<std::byte>& host) const;
  bool enqueue_copy(LiveStream& on, const recording::Copy& s, const tn_span& dst, const tn_span& src);
  bool copy_rows(LiveStream& on, const recording::Copy& s, const tn_span& dst, const tn_span& src);
  void compare(LiveStream& on, const recording::Copy& s, const tn_span& dst, std::vector<std::byte>& host);
  bool finish(LiveStream& on);
  tn_span workspace(LiveKernel& kernel, Id on);
  void drop(LiveKernel& kernel);

  const tn_plugin& plugin_;
  const ReplayOptions& options_;
  ReplayReport& report_;
  uint64_t at_ = 0;
  std::map<Id, tn_device*> devices_;
  std::map<Id, LiveMemory> memories_;
  std::map<Id, LiveStream> streams_;
  std::map<Id, LiveKernel> kernels_;
};

}  // namespace tenon::layers
