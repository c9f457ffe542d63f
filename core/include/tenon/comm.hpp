// SPDX-License-Identifier: Apache-2.0
// comm.hpp: how the ranks of a job find each other (Store, Rendezvous), and what they do together (Communicator).
//
//   auto here = tenon::Rendezvous::from_environment();             // or a Store and two numbers
//   auto comm = tenon::Communicator::create(device, here->store, here->rank, here->size);
//   comm->all_reduce(stream, gradients, gradients, tenon::f32);    // in place, in the stream's order
//
// Invariant: all ranks of a communicator submit the same collectives in the same order. Whatever breaks that (a mismatch,
// a lost or a slow rank, an abort) is an error on every rank that is left, naming the rank, and never a hang.
#pragma once

#include <tenon/comm.h>
#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/stream.hpp>
#include <tenon/types.hpp>

#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

namespace detail {
struct StoreState;  // core/comm
struct CommState;   // core/comm
}  // namespace detail

inline constexpr Timeout default_comm_timeout = std::chrono::seconds(30);

// A key-value store that all ranks of a job share; copies name the same one. Keys are written once, and are up to 512
// bytes long; values up to 1 MiB.
class TN_API Store {
 public:
  Store() noexcept = default;
  explicit Store(std::shared_ptr<detail::StoreState> state) noexcept : state_(std::move(state)) {}
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

  // For ranks that are threads of this process. [any-thread; does not block; cannot fail]
  static Store in_process();
  // A folder that all ranks see, made if it is missing; one for each run of a job, as keys stay. TN_INVALID.
  // [any-thread; may block; may fail]
  static Result<Store> in_folder(const std::string& path);
  // Serves "HOST:PORT" (port 0: any free one, see `address`) on that host's interface only, for as long as a copy of this
  // lives. Who does not know `token`, which is never sent, is turned away. TN_INVALID. [any-thread; may block; may fail]
  static Result<Store> serve(const std::string& address, const std::string& token);
  // Asks the one who serves; tries until it is there. TN_TIMEOUT; TN_INVALID for a wrong token.
  // [any-thread; blocks; may fail]
  static Result<Store> connect(const std::string& address, const std::string& token,
                               Timeout timeout = default_comm_timeout);

  // TN_INVALID for a key that is there already, or too long. TN_PEER_LOST when the store has gone; TN_TIMEOUT when it does
  // not answer, and then the key may be set all the same. [any-thread; may block; may fail]
  Status set(std::string_view key, std::string_view value, Timeout timeout = default_comm_timeout);
  // Waits for the key. TN_TIMEOUT, TN_PEER_LOST. [any-thread; blocks; may fail]
  Result<std::string> get(std::string_view key, Timeout timeout = default_comm_timeout);
  // Where others find it: "127.0.0.1:40123", a folder, or "this process". [any-thread; does not block; cannot fail]
  const std::string& address() const noexcept;
  // As plugins see it; lives as long as a copy of this. [any-thread; does not block; cannot fail]
  const tn_store& table() const noexcept;
  detail::StoreState* state() const noexcept { return state_.get(); }

 private:
  std::shared_ptr<detail::StoreState> state_;
};

// Who this process is in a job that a launcher started, and the job's store.
struct Rendezvous {
  uint32_t rank = 0, size = 1;
  uint32_t local_rank = 0, local_size = 1;  // among those on this host
  std::string launcher{};                   // "tenon", "torchrun", "mpi", "slurm"
  Store store{};

  // Reads the process's environment: TENON_RANK and TENON_SIZE, or what torchrun (RANK, WORLD_SIZE), Open MPI
  // (OMPI_COMM_WORLD_…), MPICH (PMI_…) or Slurm (SLURM_PROCID, SLURM_NTASKS) set. The store is TENON_STORE
  // ("tcp://HOST:PORT", or "file:///FOLDER"), else torchrun's MASTER_ADDR and MASTER_PORT. Rank 0 serves a TCP store, unless
  // TENON_STORE_SERVER is "launcher" (`tenon run`); it needs TENON_STORE_TOKEN. Errors name the variable, its value and the remedy. [any-thread; blocks; may fail]
  static TN_API Result<Rendezvous> from_environment(Timeout timeout = default_comm_timeout);
  // The same from a table that the caller brings.
  static TN_API Result<Rendezvous> from(const std::map<std::string, std::string, std::less<>>& variables,
                                        Timeout timeout = default_comm_timeout);
};

enum class Reduction : uint32_t {
  sum = TN_REDUCE_SUM,
  prod = TN_REDUCE_PROD,
  min = TN_REDUCE_MIN,
  max = TN_REDUCE_MAX,
  avg = TN_REDUCE_AVG,
  premul_sum = TN_REDUCE_PREMUL_SUM,  // Σ factor_r · x_r
};

// One operation of a group. Counts follow from the spans: `send` is what one rank gives (all_gather: one block; scattering
// kinds: all blocks). In place: the same span on both sides; all_gather's send and reduce_scatter's recv are the rank's own
// block. A zero-byte operation keeps its place. A submit refuses a span for all blocks that is no whole number of them.
// [all: any-thread; does not block; cannot fail]
struct CommOp {
  tn_comm_op abi{};

  static TN_API CommOp all_reduce(const tn_span& send, const tn_span& recv, DType dtype,
                                  Reduction how = Reduction::sum, double factor = 1) noexcept;
  static TN_API CommOp reduce(const tn_span& send, const tn_span& recv, DType dtype, uint32_t root,
                              Reduction how = Reduction::sum, double factor = 1) noexcept;
  // `recv` is every rank's; `send` counts at the root.
  static TN_API CommOp broadcast(const tn_span& send, const tn_span& recv, DType dtype,
                                 uint32_t root) noexcept;
  static TN_API CommOp all_gather(const tn_span& send, const tn_span& recv, DType dtype) noexcept;
  static TN_API CommOp reduce_scatter(const tn_span& send, const tn_span& recv, DType dtype,
                                      Reduction how = Reduction::sum, double factor = 1) noexcept;
  // Block q of `send` goes to rank q; `recv` is as large.
  static TN_API CommOp all_to_all(const tn_span& send, const tn_span& recv, DType dtype,
                                  uint32_t size) noexcept;
  // Counts are elements for each rank, packed in rank order; borrowed until the submit returns.
  static TN_API CommOp all_to_all(const tn_span& send, std::span<const uint64_t> send_counts,
                                  const tn_span& recv, std::span<const uint64_t> recv_counts,
                                  DType dtype) noexcept;
  static TN_API CommOp send(const tn_span& what, DType dtype, uint32_t to) noexcept;
  static TN_API CommOp recv(const tn_span& what, DType dtype, uint32_t from) noexcept;
  static TN_API CommOp barrier() noexcept;
  // The factor of a premul_sum as a rank-0 tensor on the device, read when the operation runs.
  CommOp& factor_from(const tn_span& tensor) noexcept {
    abi.factor = tensor;
    return *this;
  }
};

struct CommOptions {
  std::string name = "world";              // in messages; ranks that make one together use the same
  Timeout timeout = default_comm_timeout;  // of creation, and of a rank that does not go on
  bool deterministic = false;              // same bits for any arrival order, cut and algorithm
};

// Ranks that work together; copies name the same one. It ends with its last copy, like `destroy`.
class TN_API Communicator {
 public:
  Communicator() noexcept = default;
  explicit Communicator(std::shared_ptr<detail::CommState> state) noexcept : state_(std::move(state)) {}
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

  // Joins the others on `store`, each with a rank of its own; several of one name on one store pair up in the order of
  // creation, whichever rank a process was in those before. Where the device's plugin has no communicators, that of
  // another plugin carries the bytes through host memory (Device::emulated() says so); TN_UNSUPPORTED when none can.
  // TN_TIMEOUT names who is missing; TN_MISMATCH; TN_INVALID names two processes that were given one rank; TN_PEER_LOST;
  // TN_NO_MEMORY. [any-thread, one for each rank; blocks; may fail]
  static Result<Communicator> create(Device& device, const Store& store, uint32_t rank, uint32_t size,
                                     CommOptions options = {});

  uint32_t rank() const noexcept;
  uint32_t size() const noexcept;
  const std::string& name() const noexcept;
  // What it takes, as masks. [any-thread; does not block; cannot fail]
  const tn_comm_limits& limits() const noexcept;

  // Enqueues one group: its operations progress together, none reads another's output. Groups of one communicator run in
  // the order of their submits, on whatever streams. TN_INVALID, TN_UNSUPPORTED refuse the group alone; TN_ABORTED,
  // TN_PEER_LOST, TN_TIMEOUT, TN_MISMATCH are the communicator's end, here or at the stream's next sync.
  // [stream's thread, one submit at a time; may block; may fail]
  Status submit(Stream& stream, std::span<const CommOp> group);
  Status submit(Stream& stream, std::initializer_list<CommOp> group) {
    return submit(stream, std::span(group.begin(), group.size()));
  }
  // One operation as a group of its own; see CommOp.
  Status all_reduce(Stream& stream, const tn_span& send, const tn_span& recv, DType dtype,
                    Reduction how = Reduction::sum) {
    return submit(stream, {CommOp::all_reduce(send, recv, dtype, how)});
  }
  Status broadcast(Stream& stream, const tn_span& data, DType dtype, uint32_t root) {
    return submit(stream, {CommOp::broadcast(data, data, dtype, root)});
  }
  Status all_gather(Stream& stream, const tn_span& send, const tn_span& recv, DType dtype) {
    return submit(stream, {CommOp::all_gather(send, recv, dtype)});
  }
  Status reduce_scatter(Stream& stream, const tn_span& send, const tn_span& recv, DType dtype,
                        Reduction how = Reduction::sum) {
    return submit(stream, {CommOp::reduce_scatter(send, recv, dtype, how)});
  }
  Status barrier(Stream& stream) { return submit(stream, {CommOp::barrier()}); }

  // Ranks of one `color` form a new communicator, ordered by (key, rank); a negative color takes part and gets an empty
  // one. Ranks that split several times do so in one order. TN_TIMEOUT names who did not come; otherwise as create.
  // [all ranks; blocks; may fail]
  Result<Communicator> split(int32_t color, int32_t key);
  // Ends all work in flight with TN_ABORTED, on all ranks, naming this one; a rank that waits is told within a second. Waits for no rank,
  // but for the store, half a second at most, and writes this one's flight record, a small file. [any-thread; may block; may fail]
  Status abort();
  // TN_OK, or why it has ended; who is the first to hear of that writes the record likewise. [any-thread; may block; may fail]
  Status health() const;
  // Sees the groups out and leaves; TN_ABORTED for those that did not end in time. Other copies are empty shells then.
  // Others may call abort and health meanwhile. [one thread, in which no submit is under way; blocks; may fail]
  Status destroy(Timeout timeout = default_comm_timeout);

  const std::shared_ptr<detail::CommState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::CommState> state_;
};

}  // namespace tenon
