// SPDX-License-Identifier: Apache-2.0
#include "guard/cuda/libc_symbols.hpp"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <link.h>

namespace tranche::guard {
namespace {

struct Search {
  const char* name = nullptr;
  void* found = nullptr;
};

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
};

Tables tables_of(const dl_phdr_info& info) {
  Tables tables;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    // glibc relocates the entries of loaded objects in place (except the vdso, which is skipped by name).
    for (const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
         entry->d_tag != DT_NULL;
         ++entry) {
      const auto address =
          entry->d_un.d_ptr < info.dlpi_addr ? entry->d_un.d_ptr + info.dlpi_addr : entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
      if (entry->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(address);
      if (entry->d_tag == DT_GNU_HASH) tables.gnu_hash = reinterpret_cast<const std::uint32_t*>(address);
    }
  }
  return tables;
}

const ElfW(Sym) * find(const Tables& tables, const char* name) {
  std::uint32_t hash = 5381;
  for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t buckets = tables.gnu_hash[0];
  const std::uint32_t first = tables.gnu_hash[1];
  const std::uint32_t bloom = tables.gnu_hash[2];
  const std::uint32_t* bucket = tables.gnu_hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* chain = bucket + buckets;
  for (std::uint32_t i = bucket[hash % buckets]; i >= first; ++i) {
    const std::uint32_t value = chain[i - first];
    const ElfW(Sym)& symbol = tables.symbols[i];
    if ((value | 1) == (hash | 1) && std::strcmp(tables.strings + symbol.st_name, name) == 0 &&
        symbol.st_value != 0)
      return &symbol;
    if ((value & 1) != 0) break;
  }
  return nullptr;
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const char* slash = info->dlpi_name == nullptr ? nullptr : std::strrchr(info->dlpi_name, '/');
  const char* base = slash == nullptr ? info->dlpi_name : slash + 1;
  const bool wanted =
      base != nullptr && (std::strncmp(base, "libc.so", 7) == 0 || std::strncmp(base, "libdl.so", 8) == 0);
  if (!wanted) return 0;
  const Tables tables = tables_of(*info);
  if (tables.symbols == nullptr || tables.strings == nullptr || tables.gnu_hash == nullptr) return 0;
  const ElfW(Sym)* symbol = find(tables, search->name);
  if (symbol == nullptr) return 0;
  search->found = reinterpret_cast<void*>(info->dlpi_addr + symbol->st_value);
  return 1;
}

}  // namespace

void* libc_function(const char* name) {
  Search search{name, nullptr};
  ::dl_iterate_phdr(visit, &search);
  return search.found;
}

}  // namespace tranche::guard
