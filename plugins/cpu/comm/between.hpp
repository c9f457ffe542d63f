// SPDX-License-Identifier: Apache-2.0
// between.hpp: what carries bytes between hosts: a table that a library of its own fills, opened at the first communicator
// that needs it.
//
// An engine moves bytes from one rank to another, and tells when a connection has ended. It knows neither types nor
// collectives: those are the plugin's, so they are the same on one host and on many, to the bit.
// Invariant: errors are values, nothing is thrown across this table; nothing but `connect` and `wait` waits for another rank.
#pragma once

#include <tenon/base.h>

#include <cstdint>

namespace tenon::cpu::comm::between {

inline constexpr uint32_t version = 2;
inline constexpr const char* library = "libtenon-gloo.so";
inline constexpr const char* symbol = "tenon_between";

struct Link;      // one rank's connections
struct Transfer;  // one send or receive under way

struct Engine {
  uint32_t version;
  uint32_t reserved;
  const char* name;

  // Ready to be connected over `interface`: its name, or an address of this machine. A connection may take `timeout_ns`.
  // TN_INVALID, TN_NO_MEMORY. [any-thread; may block; may fail]
  int32_t (*open)(const char* interface, uint32_t rank, uint32_t size, uint64_t timeout_ns, Link** link,
                  tn_error* error);
  // Listens for `peer` alone, and writes where: `bytes` of at most `capacity`. [one thread; does not block; may fail]
  int32_t (*listen)(Link* link, uint32_t peer, void* address, uint64_t capacity, uint64_t* bytes,
                    tn_error* error);
  // `address` is what `peer` wrote for this rank; all ranks connect to theirs in order of rank. TN_PEER_LOST; TN_ABORTED
  // once it is stopped. [one thread; blocks; may fail]
  int32_t (*connect)(Link* link, uint32_t peer, const void* address, uint64_t bytes, tn_error* error);
  // Ends the `connect` under way, and every later one; what is connected stays so. [any-thread; may block; cannot fail]
  void (*stop)(Link* link);

  // One `send` and one `receive` of equal tags meet; a receive may have room for more than comes. `bytes` is not 0; memory
  // is borrowed until the transfer is done, or the link closed. TN_PEER_LOST, TN_ABORTED once it is closed.
  // [any-thread; does not block; may fail]
  int32_t (*send)(Link* link, uint32_t peer, uint64_t tag, const void* data, uint64_t bytes,
                  Transfer** transfer, tn_error* error);
  int32_t (*receive)(Link* link, uint32_t peer, uint64_t tag, void* data, uint64_t bytes, Transfer** transfer,
                     tn_error* error);
  // Until it is done (what was sent is on its way). TN_BUSY when `interrupt` came first: wait again. TN_PEER_LOST.
  // TN_TIMEOUT ends all connections of the link. [one thread for each transfer; blocks; may fail]
  int32_t (*wait)(Transfer* transfer, uint64_t timeout_ns, tn_error* error);
  // Every wait under way returns. [any-thread; does not block; cannot fail]
  void (*interrupt)(Link* link);
  // Only when it is done, or the link closed. [one thread; does not block; cannot fail]
  void (*release)(Transfer* transfer);

  // Ends all connections, after what was sent; from its return on no memory is touched. Idempotent.
  // [any-thread; may block; cannot fail]
  void (*close)(Link* link);
  // After its transfers were released. [one thread; may block; cannot fail]
  void (*destroy)(Link* link);
};

// What the library exports; nullptr when it speaks another version.
using Entry = const Engine* (*)(uint32_t version);

}  // namespace tenon::cpu::comm::between
