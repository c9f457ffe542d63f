// SPDX-License-Identifier: Apache-2.0
// system.cpp: Linux's answers to system.hpp's questions.
//
// Invariant: every failure names what was asked for, the system's own words, and what to do about it.
#include "system.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace tenon::cpu::comm::system {

using author::text;

namespace {

// For its life no signal that a file's size has a limit reaches this thread: who asked for room is told by an error.
class Unsignalled {
 public:
  Unsignalled() noexcept {
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  Unsignalled(const Unsignalled&) = delete;
  Unsignalled& operator=(const Unsignalled&) = delete;
  ~Unsignalled() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    constexpr timespec now{};
    if (!was_pending_) (void)sigtimedwait(&set, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
  bool was_pending_ = false;
};

const char* remedy(int number) noexcept {
  return number == EFBIG ? "raise the limit of file sizes (ulimit -f), which holds for shared memory, too"
                         : "free some, or raise the limit of the control group";
}

Status failure(int32_t code, const std::string& words, int number) {
  return Status(Error{.code = code,
                      .message = text(words, ": ", std::strerror(number)),
                      .domain = "errno",
                      .native_code = number});
}

}  // namespace

Fd::~Fd() {
  if (number_ >= 0) close(number_);
}

Place here(std::string_view host) noexcept {
  Place place;
  char text[40] = {};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(text, 36);
  size_t digits = 0;
  for (const char letter : text) {
    const int value = letter >= '0' && letter <= '9'   ? letter - '0'
                      : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                                                       : -1;
    if (value >= 0 && digits < 32) {
      uint64_t& word = place.boot[digits++ / 16];
      word = word << 4 | static_cast<uint64_t>(value);
    }
  }
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) == 0) place.process_space = space.st_ino;
  if (!host.empty()) place.host = 0xCBF29CE484222325u;  // FNV-1a
  for (const char letter : host)
    place.host = (place.host ^ static_cast<unsigned char>(letter)) * 0x100000001B3u;
  return place;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "without a name";
}

uint64_t network_space() noexcept {
  struct stat space;
  return stat("/proc/self/ns/net", &space) == 0 ? space.st_ino : 0;
}

int32_t process() noexcept { return static_cast<int32_t>(getpid()); }

uint64_t random() noexcept {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = driver::now_ns();
  return number;
}

Result<Fd> make_memory(const char* what) {
  Fd memory(memfd_create(what, MFD_CLOEXEC));
  if (!memory) return failure(TN_NO_MEMORY, text("no shared memory for ", what), errno);
  return memory;
}

// A signal undoes what is under way, so pieces are small enough to end between two of a profiler's.
Status reserve(const Fd& memory, uint64_t bytes) {
  constexpr uint64_t at_once = 4 << 20;
  const Unsignalled unsignalled;
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t n = std::min(at_once, bytes - at);
    const int refused = posix_fallocate(memory.get(), static_cast<off_t>(at), static_cast<off_t>(n));
    if (refused == 0) at += n;
    if (refused == 0 || refused == EINTR) continue;
    return failure(TN_NO_MEMORY, text("no room for ", bytes, " bytes of shared memory: ", remedy(refused)),
                   refused);
  }
  return {};
}

Status resize(const Fd& memory, uint64_t bytes) {
  const Unsignalled unsignalled;
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0) return {};
  const int why = errno;
  return failure(TN_NO_MEMORY, text("no room for ", bytes, " bytes of shared memory: ", remedy(why)), why);
}

Result<Fd> open_in(int32_t pid, int number) {
  const std::string path = text("/proc/", pid, "/fd/", number);
  Fd memory(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (memory) return memory;
  const int why = errno;
  if (kill(pid, 0) != 0 && errno == ESRCH)
    return failure(TN_PEER_LOST, text("process ", pid, " has ended, and its memory with it"), why);
  if (why == ENOENT)
    return failure(TN_PEER_LOST, text("process ", pid, " has closed its memory ", path), why);
  if (why == EMFILE || why == ENFILE)
    return failure(TN_NO_MEMORY,
                   text("no file descriptor is left to open ", path,
                        ", the memory of another rank: close some, or raise ",
                        why == EMFILE ? "the limit (ulimit -n)" : "fs.file-max"),
                   why);
  return failure(TN_UNSUPPORTED,
                 text("cannot open ", path,
                      ", the memory of another rank: run all ranks as one user, and "
                      "let them look at each other (no hidepid, PR_SET_DUMPABLE left at 1)"),
                 why);
}

bool read_from(int32_t pid, uint64_t address, std::span<std::byte> to) noexcept {
  while (!to.empty()) {
    const iovec here{to.data(), to.size()},
        there{reinterpret_cast<void*>(static_cast<uintptr_t>(address)), to.size()};
    const ssize_t came = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (came <= 0) return false;
    to = to.subspan(static_cast<size_t>(came));
    address += static_cast<uint64_t>(came);
  }
  return true;
}

uint64_t inode_of(const Fd& memory) noexcept {
  struct stat info;
  return fstat(memory.get(), &info) == 0 ? info.st_ino : 0;
}

uint64_t bytes_of(const Fd& memory) noexcept {
  struct stat info;
  return fstat(memory.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

std::byte* map(const Fd& memory, uint64_t bytes) noexcept {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

void unmap(std::byte* at, uint64_t bytes) noexcept { (void)munmap(at, bytes); }

Fd watch(int32_t pid) noexcept {
#if defined(SYS_pidfd_open)
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0u)));
#else
  return Fd();
#endif
}

namespace {

// Asked without a descriptor, which may be what there was none of. A process that nobody reaped is still there for `kill`: it runs no
// program any more, and has one thread left, where one whose first thread has ended goes on with others.
bool has_ended_unwatched(int32_t pid) noexcept {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  char path[40], program[1];
  std::snprintf(path, sizeof path, "/proc/%d/exe", pid);
  if (readlink(path, program, sizeof program) >= 0 || errno != ENOENT) return false;
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  struct stat threads;
  return stat(path, &threads) != 0 || threads.st_nlink <= 3;  // two of any folder's, and one for each thread
}

}  // namespace

bool has_ended(const Fd& watched, int32_t pid) noexcept {
  if (!watched) return has_ended_unwatched(pid);
  pollfd entry{.fd = watched.get(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 1;
}

void sleep_on(std::atomic<uint32_t>& word, uint32_t expected, uint64_t deadline) noexcept {
  timespec until{.tv_sec = static_cast<time_t>(deadline / 1'000'000'000u),
                 .tv_nsec = static_cast<long>(deadline % 1'000'000'000u)};
  (void)syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_BITSET, expected,
                deadline == driver::never ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void wake_all(std::atomic<uint32_t>& word) noexcept {
  (void)syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Asked once for each process.
bool take_part_in_fences() noexcept {
#if defined(SYS_membarrier)
  static const bool takes_part = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return takes_part;
#else
  return false;
#endif
}

void fence_all() noexcept {
#if defined(SYS_membarrier)
  (void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
#endif
}

Result<void*> symbol_beside(const char* name, const char* symbol) {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&symbol_beside), &self) == 0 || self.dli_fname == nullptr)
    return Status(TN_NOT_FOUND, "the system does not say where this plugin lies");
  std::string path = self.dli_fname;
  path.erase(path.rfind('/') + 1).append(name);
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && (info.st_mode & S_IWOTH) != 0)
    return Status(TN_NOT_FOUND, text("everybody may write ", path, ": take that right away"));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* found = library != nullptr ? dlsym(library, symbol) : nullptr;
  if (found != nullptr) return found;
  const char* const why = dlerror();
  return Status(TN_NOT_FOUND, why != nullptr ? why : text(path, " has no ", symbol));
}

Processors processors() noexcept {
  Processors words{};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return words;
  for (size_t i = 0; i < CPU_SETSIZE && i < words.size() * 64; ++i) {
    if (CPU_ISSET(i, &set)) words[i / 64] |= uint64_t{1} << i % 64;
  }
  return words;
}

}  // namespace tenon::cpu::comm::system
