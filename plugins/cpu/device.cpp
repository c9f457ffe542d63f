// SPDX-License-Identifier: Apache-2.0
// device.cpp: limits, memory and what a device makes.
//
// Invariant: an allocation that the machine cannot back is refused with the figures before a page is asked for, because
// an overcommitting kernel would grant it and end the process later.
#include "device.hpp"

#include "kernels/patterns.hpp"
#include "kernels/plan.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tenon::cpu {

using author::text;

namespace {

// Measured: the first touch of 64 MiB takes 25.7 ms in 4 KiB pages and 9.4 ms in huge ones, of 2 MiB 0.51 and 0.11 ms;
// copying what was touched before takes the same time in both. Below one huge page there is nothing to gain.
constexpr uint64_t mapped_from = 2 << 20;
constexpr uint64_t small_page = 4096;
// Reading the machine's figures takes 6 µs and more; below this size a wrong guess harms nobody.
constexpr uint64_t checked_from = 64 << 20;

Status check_room(uint64_t bytes, uint64_t used) {
  if (bytes < checked_from) return {};
  const driver::MemoryFigures figures = driver::memory_figures();
  if (bytes <= figures.available) return {};
  return Status(TN_NO_MEMORY, text("asked for ", bytes, " bytes; ", figures.available, " of ", figures.total,
                                   " are available, and ", used, " are allocated here: free some"));
}

}  // namespace

Result<std::unique_ptr<Memory>> Memory::allocate(uint64_t bytes, uint64_t alignment, int node,
                                                 std::atomic<uint64_t>& used, bool shared) {
  TN_TRY(check_room(bytes, used.load(std::memory_order_relaxed)));
  const bool mapped = bytes >= mapped_from;
  if (mapped && shared && alignment <= small_page) return share(bytes, node, used);
  void* data = nullptr;
  if (mapped) {
    data = driver::map_pages(bytes, alignment, node);
  } else if (posix_memalign(&data, alignment, std::max<uint64_t>(bytes, 1)) != 0) {
    data = nullptr;
  }
  if (data == nullptr) {
    return Status(TN_NO_MEMORY,
                  text("no address range for ", bytes, " bytes aligned to ", alignment, "; ",
                       used.load(std::memory_order_relaxed), " bytes are allocated here: free some"));
  }
  used.fetch_add(bytes, std::memory_order_relaxed);
  return std::unique_ptr<Memory>(new Memory(static_cast<std::byte*>(data), bytes, mapped, used));
}

Result<std::unique_ptr<Memory>> Memory::share(uint64_t bytes, int node, std::atomic<uint64_t>& used) {
  comm::system::Fd file = TN_TRY(comm::system::make_memory("tenon buffer"));
  TN_TRY(comm::system::resize(file, bytes));
  std::byte* data = comm::system::map(file, bytes);
  if (data == nullptr)
    return Status(TN_NO_MEMORY, text("no address range for ", bytes, " bytes of shared memory: free some"));
  driver::advise_pages(data, bytes, node);
  used.fetch_add(bytes, std::memory_order_relaxed);
  std::unique_ptr<Memory> memory(new Memory(data, bytes, true, used));
  // Behind the advice, which says where they lie. Measured: with the first touch it takes no longer than that alone.
  TN_TRY(comm::system::reserve(file, bytes));
  memory->inode_ = comm::system::inode_of(file);
  memory->file_ = std::move(file);
  return memory;
}

void Memory::find_window(uint64_t offset, comm::Window& out) const noexcept {
  out.kind = comm::Window::personal;
  out.offset = offset;
  out.address = reinterpret_cast<uint64_t>(data_ + offset);
  if (!file_) return;
  out.kind = comm::Window::shared;
  out.number = file_.get();
  out.inode = inode_;
}

Memory::~Memory() {
  if (file_) given_back_.fetch_add(1, std::memory_order_relaxed);
  if (mapped_) {
    driver::unmap_pages(data_, bytes_);
  } else {
    std::free(data_);
  }
  used_.fetch_sub(bytes_, std::memory_order_relaxed);
}

Device::Device(driver::Node node, unsigned threads, SearchOptions search, Sharing sharing, author::Host host,
               Roster& roster, comm::Segments& segments)
    : node_(std::move(node)),
      crew_{.threads = threads, .host = host},
      roster_(roster),
      segments_(segments),
      sharing_(sharing),
      search_(std::move(search), crew_) {
  if (node_.processors.size() < driver::affinity_count()) placement_ = node_.processors;
  prepare_team();
}

void Device::limits(tn_device_limits& out) const {
  out.alignment = TN_MEMORY_ALIGNMENT;
  out.max_alloc_bytes = node_.memory_bytes;
  out.max_bindings = Queue::largest_piece / sizeof(std::byte*);
  out.priorities = 3;
  out.preferences = TN_PREFERS_CHANNELS_LAST_F32 | TN_PREFERS_CHANNELS_LAST_HALF |
                    TN_PREFERS_FILTERS_DENSE;  // oneDNN brings filters into an order of its own from any
  out.launch_ns = 250;
}

Status Device::memory_info(tn_memory_info& out) {
  const driver::MemoryFigures figures = driver::memory_figures();
  out.total_bytes = node_.memory_bytes;
  out.free_bytes = std::min(figures.available, node_.memory_bytes);
  out.used_here_bytes = used_.load(std::memory_order_relaxed);
  return {};
}

Result<std::unique_ptr<Memory>> Device::allocate(uint32_t /*kind*/, uint64_t bytes, uint64_t alignment) {
  const bool shared = sharing_ == Sharing::always || (sharing_ == Sharing::with_peers && has_peers_.load());
  return Memory::allocate(bytes, alignment, placement_.empty() ? -1 : node_.number, used_, shared);
}

Result<std::unique_ptr<Stream>> Device::create_stream(const tn_stream_options& options) {
  return std::make_unique<Stream>(*this, options);
}

// Every address of this process works on every node.
Result<bool> Device::peer(Device& /*other*/) { return true; }

Status Device::supports(const tn_fragment& fragment, tn_support& out) { return judge(fragment, out); }

tn_pattern_list Device::patterns() { return published_patterns(); }

Result<std::unique_ptr<Kernel>> Device::compile(const tn_fragment& fragment,
                                                const tn_compile_options& options) {
  const Tuning tuning{
      .search = &search_, .budget_ms = options.budget_ms, .workspace_limit = options.workspace_limit};
  std::unique_ptr<const Program> program = TN_TRY(make_program(fragment, tuning, crew_.threads));
  return std::make_unique<Kernel>(std::move(program), roster_);
}

Status Device::make_comm_id(std::span<std::byte> id) {
  const comm::Id made = TN_TRY(segments_.make_id());
  std::memcpy(id.data(), &made, sizeof made);
  return {};
}

Result<std::unique_ptr<Comm>> Device::create_comm(uint32_t rank, uint32_t size, std::span<const std::byte> id,
                                                  const tn_comm_options& options) {
  comm::Ticket ticket{.rank = rank,
                      .size = size,
                      .timeout_ns = options.timeout_ns,
                      .name = options.name != nullptr ? options.name : "unnamed",
                      .store = options.store};
  std::memcpy(&ticket.id, id.data(), sizeof ticket.id);
  return Comm::create(segments_, std::move(ticket), (options.flags & TN_COMM_NON_BLOCKING) != 0,
                      [this](const comm::Member& member) {
                        if (!member.one_process() && member.open()) has_peers_.store(true);
                        if (!member.watches_all() && !unwatched_.exchange(true)) tell_unwatched();
                      });
}

void Device::tell_unwatched() const {
  crew_.host.log(
      TN_LOG_WARN,
      "no descriptors to watch the processes of other ranks with (pidfd_open: ulimit -n, a sandbox, or Linux "
      "before 5.3); they are asked after one by one");
}

}  // namespace tenon::cpu
