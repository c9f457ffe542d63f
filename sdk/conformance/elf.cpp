// SPDX-License-Identifier: Apache-2.0
// elf.cpp: a reader of dynamic symbols and search paths. Every offset is checked against the file's size before it is followed.
#include "conformance/elf.hpp"

#include "conformance/content.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace tenon::conform {

namespace {

using File = std::string;

// A structure at `offset`, or nothing when it does not lie inside.
template <class T>
std::optional<T> at(const File& file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return {};
  T out;
  std::memcpy(&out, file.data() + offset, sizeof out);
  return out;
}

std::string string_at(const File& file, const Elf64_Shdr& strings, uint64_t index) {
  const uint64_t begin = strings.sh_offset + index;
  if (index >= strings.sh_size || begin >= file.size()) return {};
  return std::string(file.data() + begin, strnlen(file.data() + begin, file.size() - begin));
}

bool visible(const Elf64_Sym& symbol) {
  const unsigned bind = ELF64_ST_BIND(symbol.st_info);
  const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  return symbol.st_shndx != SHN_UNDEF && (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE) &&
         (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

std::vector<std::string> symbols_of(const File& file, const Elf64_Shdr& table, const Elf64_Shdr& strings) {
  std::vector<std::string> out;
  for (uint64_t place = 0; place + sizeof(Elf64_Sym) <= table.sh_size; place += sizeof(Elf64_Sym)) {
    const auto symbol = at<Elf64_Sym>(file, table.sh_offset + place);
    if (!symbol) break;
    if (visible(*symbol)) out.push_back(string_at(file, strings, symbol->st_name));
  }
  return out;
}

// "a:b" is two places, and so is "a:".
void add_places(std::vector<std::string>& out, const std::string& list) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    out.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::vector<std::string> places_of(const File& file, const Elf64_Shdr& table, const Elf64_Shdr& strings) {
  std::vector<std::string> out;
  for (uint64_t place = 0; place + sizeof(Elf64_Dyn) <= table.sh_size; place += sizeof(Elf64_Dyn)) {
    const auto entry = at<Elf64_Dyn>(file, table.sh_offset + place);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH)
      add_places(out, string_at(file, strings, entry->d_un.d_val));
  }
  return out;
}

// What `read` makes of the first section of `type` and the strings it refers to; nothing where there is none.
template <class Read>
Result<std::optional<std::vector<std::string>>> from_section(const std::string& path, uint32_t type,
                                                             const Read& read) {
  const File file = TN_TRY(content_of(path));
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_type != ET_DYN) {
    return Status(TN_INVALID, words("'", path, "' is no 64-bit little-endian ELF library"));
  }
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(file, header->e_shoff + i * header->e_shentsize);
    if (!section || section->sh_type != type) continue;
    const auto strings =
        at<Elf64_Shdr>(file, header->e_shoff + section->sh_link * uint64_t{header->e_shentsize});
    if (strings) return std::optional(read(file, *section, *strings));
  }
  return std::optional<std::vector<std::string>>();
}

}  // namespace

Result<std::vector<std::string>> search_paths(const std::string& path) {
  auto found = TN_TRY(from_section(path, SHT_DYNAMIC, places_of));
  if (found) return *std::move(found);
  return Status(TN_INVALID, words("'", path, "' has no dynamic section: its sections were stripped"));
}

Result<std::vector<std::string>> exported_symbols(const std::string& path) {
  auto found = TN_TRY(from_section(path, SHT_DYNSYM, symbols_of));
  if (found) return *std::move(found);
  return Status(TN_INVALID,
                words("'", path, "' has no table of dynamic symbols: its sections were stripped"));
}

}  // namespace tenon::conform
