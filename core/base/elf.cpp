// SPDX-License-Identifier: Apache-2.0
// elf.cpp: see elf.hpp. Offsets come from the file and are untrusted: every end is computed without wrapping around.
#include "base/elf.hpp"

#include "base/fd.hpp"
#include "base/host.hpp"
#include "base/text.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace tenon::base {
namespace {

static_assert(sizeof(void*) == 8, "the loader reads 64-bit ELF only");

constexpr uint8_t host_data = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
#if defined(__x86_64__)
constexpr uint16_t host_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t host_machine = EM_AARCH64;
#else
constexpr uint16_t host_machine = EM_NONE;  // not known here: the system's loader decides
#endif

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_386:
      return "x86 (32 bit)";
    case EM_AARCH64:
      return "aarch64";
    case EM_ARM:
      return "arm (32 bit)";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390";
    case EM_RISCV:
      return "riscv";
    default:
      return "machine " + std::to_string(machine);
  }
}

class Reader {
 public:
  Reader(const Fd& fd, uint64_t size) : fd_(fd), size_(size) {}
  uint64_t size() const noexcept { return size_; }
  bool holds(uint64_t offset, uint64_t bytes) const noexcept {
    return offset <= size_ && bytes <= size_ - offset;
  }
  bool read(uint64_t offset, void* out, size_t bytes) const noexcept {
    if (!holds(offset, bytes)) return false;
    return pread(fd_.get(), out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }

 private:
  const Fd& fd_;
  uint64_t size_;
};

Status bad_elf(std::string text) { return Status(TN_INVALID, std::move(text)); }

Status truncated(const char* what, uint64_t offset, uint64_t bytes, uint64_t size) {
  const uint64_t end = bytes > UINT64_MAX - offset ? UINT64_MAX : offset + bytes;
  return bad_elf("is truncated: its " + std::string(what) + " end at byte " + std::to_string(end) +
                 ", the file has " + std::to_string(size) + ": copy or build it again");
}

Status not_a_library(const Reader& file) {
  if (file.size() == 0) return bad_elf("is not a shared library: the file is empty: build it again");
  std::string start(std::min<uint64_t>(file.size(), 24), '\0');
  file.read(0, start.data(), start.size());
  for (char& c : start) c = static_cast<unsigned char>(c) < 0x80 ? c : '.';
  return bad_elf("is not a shared library: it begins with " + base::quoted(start, 24) +
                 ": put the built library in its place");
}

Status check_header(const Elf64_Ehdr& header, const Reader& file) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return not_a_library(file);
  if (header.e_ident[EI_CLASS] != ELFCLASS64)
    return bad_elf("is a 32-bit library, this process has 64: build it for 64 bit");
  if (header.e_ident[EI_DATA] != host_data)
    return bad_elf("has the other byte order: build it for " + host().arch);
  if (host_machine != EM_NONE && header.e_machine != host_machine) {
    return bad_elf("was built for " + machine_name(header.e_machine) + ", this host is " + host().arch +
                   ": build it for " + host().arch);
  }
  if (header.e_type != ET_DYN) {
    return bad_elf(std::string("is ") + (header.e_type == ET_REL ? "an object file" : "no shared library") +
                   " (ELF type " + std::to_string(header.e_type) + "): link it with -shared");
  }
  return {};
}

Status check_segments(const Elf64_Ehdr& header, const Reader& file) {
  const uint64_t bytes = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return bad_elf("has no usable program headers (" + std::to_string(header.e_phnum) + " of " +
                   std::to_string(header.e_phentsize) + " bytes): build it again");
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!file.read(header.e_phoff, segments.data(), bytes)) {
    return truncated("program headers", header.e_phoff, bytes, file.size());
  }
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && !file.holds(segment.p_offset, segment.p_filesz)) {
      return truncated("segments", segment.p_offset, segment.p_filesz, file.size());
    }
  }
  return {};
}

}  // namespace

Status check_library_file(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) != 0)
    return bad_elf(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return bad_elf("is not a regular file: put the built library in its place");
  const Reader file(fd, static_cast<uint64_t>(info.st_size));
  Elf64_Ehdr header;
  if (!file.read(0, &header, sizeof header)) {
    char magic[SELFMAG] = {};
    file.read(0, magic, sizeof magic);
    if (std::memcmp(magic, ELFMAG, SELFMAG) != 0) return not_a_library(file);
    return truncated("ELF header", 0, sizeof header, file.size());
  }
  TN_TRY(check_header(header, file));
  TN_TRY(check_segments(header, file));
  const uint64_t sections = uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff != 0 && !file.holds(header.e_shoff, sections)) {
    return truncated("section headers", header.e_shoff, sections, file.size());
  }
  return {};
}

}  // namespace tenon::base
