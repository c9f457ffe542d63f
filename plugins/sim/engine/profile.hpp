// SPDX-License-Identifier: Apache-2.0
// profile.hpp: which device is played: its limits, what it lacks, how it misbehaves.
//
// A profile is a short TOML file of `key = value` lines. Every key is also an option of the plugin ("sim.max_streams"),
// which wins over the file, so a test combines traits as it likes.
// Invariant: an unknown key, profile or value is refused in words; nothing is silently ignored.
#pragma once

#include <tenon/author/host.hpp>
#include <tenon/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::sim {

// The defaults are a device without a limit and without a quirk.
struct Profile {
  std::string name = "plain";

  // What it is.
  std::string chip = "Simulated device";
  uint64_t devices = 1;
  bool exclusive = false;    // a device is opened once at a time
  bool synchronous = false;  // no streams of its own: work is done when the call returns
  bool whole_graphs =
      false;  // a fragment of one op is refused: docs/adr/0025 says why it is the number that counts
  bool thread_bound = false;  // native calls need a thread that is bound to the device
  bool capture = false;       // offers tn.capture/1
  bool peer = false;          // devices copy from each other's memory
  bool cross_device_wait = false;

  // Memory.
  uint64_t memory_mib = 1024;
  uint64_t alignment = 256;
  bool addresses = true;  // memory has addresses; the host may not touch them
  bool host_memory = true;
  bool managed_memory = false;
  uint64_t copy_alignment = 1;  // offsets and sizes of copies are multiples of it
  uint64_t link_mib_per_s = 0;  // speed of copies from and to the host; 0: as fast as they go

  // Streams.
  uint64_t max_streams = 0;  // 0: no limit
  uint64_t priorities = 1;
  uint64_t max_records = 0;    // recorded and not reached, over all streams; 0: no limit
  bool record_blocks = false;  // at that limit: wait for room, or refuse
  bool event_query = true;     // false: query knows what a sync was told, and no more
  bool host_call = true;
  bool promise = true;
  bool timestamp = true;
  bool copy_strided = true;

  // Kernels.
  uint64_t max_bindings = 0;
  uint64_t max_nodes = 0;         // of one fragment; 0: no limit
  uint64_t workspace_kib = 0;     // that every kernel demands on top of what it needs
  bool one_shot_kernels = false;  // an executor runs once: every launch prepares its own
  std::string private_layout{};   // "NZ": matrices in tiles of 16 × 16
  std::string refused_dtypes{};   // "f64 u64"

  // Communicators.
  uint64_t comm_id_bytes = 0;  // of an id; 0: there are none

  // Order, and trouble on purpose. A count of 0 is "never".
  uint64_t seed = 1;
  uint64_t idle_ms = 2;          // work that nobody asks for starts after this long
  uint64_t oom_at = 0;           // this allocation fails
  uint64_t lost_at = 0;          // the device is lost at this command
  uint64_t peer_lost_at = 0;     // the rank that brings this group to a hub is lost
  uint64_t corrupt_at = 0;       // one bit of this launch's first output is wrong
  uint64_t straggler_in = 0;     // one command in so many is slow
  uint64_t straggler_us = 1000;  // by this much

  uint64_t memory_bytes() const noexcept { return memory_mib << 20; }
  bool refuses_dtype(std::string_view dtype) const noexcept;
};

// Reads the lines of a profile into `out`, up to its first [[unsupported]]: the rest is for the conformance kit. `where`
// names the text in messages. TN_INVALID names line, key and value. [any-thread; does not block; may fail]
Status read_profile(std::string_view text, std::string_view where, Profile& out);

// The profile that the host's options ask for: `profile` is a name, or a file if it holds a '/'. TN_NOT_FOUND lists the
// names there are. [any-thread; may block; may fail]
Result<Profile> chosen_profile(const author::Host& host);

}  // namespace tenon::sim
