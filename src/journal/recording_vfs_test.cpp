// SPDX-License-Identifier: Apache-2.0
// The recording VFS, and tests that it rebuilds disks rightly. It is built into the tests only.
#include "journal/recording_vfs.hpp"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <fstream>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "journal/durable_file.hpp"

namespace tranche::journal {
namespace {

constexpr std::int64_t kSector = 512;

// SQLite allocates this and the real file behind it in one piece.
struct RecordedFile {
  sqlite3_file base{};
  RecordingVfs* vfs = nullptr;
  std::string* name = nullptr;
  [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

RecordedFile& recorded(sqlite3_file* file) {
  return *reinterpret_cast<RecordedFile*>(file);
}

sqlite3_file* real(sqlite3_file* file) {
  return recorded(file).real();
}

int close_file(sqlite3_file* file) {
  const int code = real(file)->pMethods->xClose(real(file));
  delete recorded(file).name;
  return code;
}

int write_file(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 position) {
  auto& self = recorded(file);
  const int code =
      self.vfs->note({.kind = DiskOperation::Kind::kWrite,
                      .file = *self.name,
                      .position = position,
                      .bytes = std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size))});
  return code != SQLITE_OK ? code : real(file)->pMethods->xWrite(real(file), bytes, size, position);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  auto& self = recorded(file);
  const int code =
      self.vfs->note({.kind = DiskOperation::Kind::kTruncate, .file = *self.name, .position = size});
  return code != SQLITE_OK ? code : real(file)->pMethods->xTruncate(real(file), size);
}

int sync_file(sqlite3_file* file, int) {
  // The real sync is left out: only the recording matters, and it makes the tests fast.
  auto& self = recorded(file);
  return self.vfs->note({.kind = DiskOperation::Kind::kSync, .file = *self.name});
}

const sqlite3_io_methods kMethods{
    .iVersion = 2,
    .xClose = close_file,
    .xRead =
        [](sqlite3_file* file, void* bytes, int size, sqlite3_int64 position) {
          return real(file)->pMethods->xRead(real(file), bytes, size, position);
        },
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = [](sqlite3_file* file,
                    sqlite3_int64* size) { return real(file)->pMethods->xFileSize(real(file), size); },
    .xLock = [](sqlite3_file* file, int level) { return real(file)->pMethods->xLock(real(file), level); },
    .xUnlock = [](sqlite3_file* file, int level) { return real(file)->pMethods->xUnlock(real(file), level); },
    .xCheckReservedLock =
        [](sqlite3_file* file, int* result) {
          return real(file)->pMethods->xCheckReservedLock(real(file), result);
        },
    .xFileControl =
        [](sqlite3_file* file, int operation, void* argument) {
          return real(file)->pMethods->xFileControl(real(file), operation, argument);
        },
    .xSectorSize = [](sqlite3_file* file) { return real(file)->pMethods->xSectorSize(real(file)); },
    .xDeviceCharacteristics =
        [](sqlite3_file* file) { return real(file)->pMethods->xDeviceCharacteristics(real(file)); },
    .xShmMap =
        [](sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
          return real(file)->pMethods->xShmMap(real(file), page, size, extend, memory);
        },
    .xShmLock =
        [](sqlite3_file* file, int offset, int count, int flags) {
          return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
        },
    .xShmBarrier = [](sqlite3_file* file) { real(file)->pMethods->xShmBarrier(real(file)); },
    .xShmUnmap = [](sqlite3_file* file,
                    int remove) { return real(file)->pMethods->xShmUnmap(real(file), remove); },
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int open_file(sqlite3_vfs* vfs, sqlite3_filename path, sqlite3_file* file, int flags, int* out_flags) {
  auto* owner = static_cast<RecordingVfs*>(vfs->pAppData);
  auto* self = new (file) RecordedFile{};
  const int code = owner->real()->xOpen(owner->real(), path, self->real(), flags, out_flags);
  if (code != SQLITE_OK) return code;
  self->vfs = owner;
  self->name = new std::string(path != nullptr ? std::filesystem::path(path).filename().string() : "unnamed");
  self->base.pMethods = &kMethods;
  return SQLITE_OK;
}

void apply(std::string& content, const DiskOperation& operation) {
  if (operation.kind == DiskOperation::Kind::kTruncate) {
    content.resize(static_cast<std::size_t>(operation.position), '\0');
    return;
  }
  const auto start = static_cast<std::size_t>(operation.position);
  if (content.size() < start + operation.bytes.size()) content.resize(start + operation.bytes.size(), '\0');
  content.replace(start, operation.bytes.size(), operation.bytes);
}

void apply_some_sectors(std::string& content, const DiskOperation& operation, Random& random) {
  const auto end = operation.position + static_cast<std::int64_t>(operation.bytes.size());
  for (std::int64_t from = operation.position; from < end;) {
    const std::int64_t to = std::min(end, (from / kSector + 1) * kSector);
    const auto offset = static_cast<std::size_t>(from - operation.position);
    if (random.below(2) == 0)
      apply(content,
            {.kind = DiskOperation::Kind::kWrite,
             .file = operation.file,
             .position = from,
             .bytes = operation.bytes.substr(offset, static_cast<std::size_t>(to - from))});
    from = to;
  }
}

}  // namespace

RecordingVfs::RecordingVfs() : real_(sqlite3_vfs_find(nullptr)), vfs_(std::make_unique<sqlite3_vfs>(*real_)) {
  static int count = 0;
  name_ = "recording-" + std::to_string(++count);
  // Everything but opening goes straight through: a folder's entries are not lost in these tests.
  vfs_->pNext = nullptr;
  vfs_->zName = name_.c_str();
  vfs_->pAppData = this;
  vfs_->szOsFile = static_cast<int>(sizeof(RecordedFile)) + real_->szOsFile;
  vfs_->xOpen = open_file;
  TRANCHE_CHECK(sqlite3_vfs_register(vfs_.get(), 0) == SQLITE_OK);
}

RecordingVfs::~RecordingVfs() {
  sqlite3_vfs_unregister(vfs_.get());
}

void RecordingVfs::start_recording() {
  const std::lock_guard hold(mutex_);
  is_recording_ = true;
}

void RecordingVfs::acknowledge(std::uint64_t sequence) {
  const std::lock_guard hold(mutex_);
  operations_.push_back(
      {.kind = DiskOperation::Kind::kAcknowledge, .position = static_cast<std::int64_t>(sequence)});
}

std::vector<DiskOperation> RecordingVfs::operations() const {
  const std::lock_guard hold(mutex_);
  return operations_;
}

void RecordingVfs::inject(Fault fault, std::uint64_t after) {
  const std::lock_guard hold(mutex_);
  fault_ = fault;
  fault_after_ = after;
}

bool RecordingVfs::has_fired() const {
  const std::lock_guard hold(mutex_);
  return fault_ == Fault::kNone;
}

int RecordingVfs::note(DiskOperation operation) {
  const std::lock_guard hold(mutex_);
  const bool is_sync = operation.kind == DiskOperation::Kind::kSync;
  if (fault_ != Fault::kNone && is_sync == (fault_ == Fault::kSyncFails) && --fault_after_ == 0) {
    const Fault fault = std::exchange(fault_, Fault::kNone);
    if (fault == Fault::kDiskFull) return SQLITE_FULL;
    return is_sync ? SQLITE_IOERR_FSYNC : SQLITE_IOERR_WRITE;
  }
  if (is_recording_) operations_.push_back(std::move(operation));
  return SQLITE_OK;
}

DiskImage read_image(const std::filesystem::path& folder, const std::vector<std::string>& files) {
  DiskImage image;
  for (const auto& file : files)
    if (std::filesystem::exists(folder / file)) image[file] = journal::read_file(folder / file);
  return image;
}

void write_image(const DiskImage& image, const std::filesystem::path& folder) {
  for (const auto& [file, content] : image) std::ofstream(folder / file, std::ios::binary) << content;
}

DiskImage image_after_power_loss(const DiskImage& before,
                                 const std::vector<DiskOperation>& operations,
                                 std::size_t count,
                                 Loss loss,
                                 Random& random) {
  DiskImage durable = before;
  std::map<std::string, std::vector<const DiskOperation*>> unsynced;
  for (std::size_t i = 0; i < count; ++i) {
    const DiskOperation& operation = operations[i];
    auto& waiting = unsynced[operation.file];
    if (operation.kind == DiskOperation::Kind::kAcknowledge) continue;
    if (operation.kind != DiskOperation::Kind::kSync) {
      waiting.push_back(&operation);
      continue;
    }
    for (const auto* one : waiting) apply(durable[operation.file], *one);
    waiting.clear();
  }
  for (const auto& [file, waiting] : unsynced) {
    for (const auto* operation : waiting) {
      if (loss == Loss::kSomeWrites && random.below(2) == 0) apply(durable[file], *operation);
      if (loss != Loss::kSomeSectors) continue;
      if (operation->kind == DiskOperation::Kind::kWrite)
        apply_some_sectors(durable[file], *operation, random);
    }
  }
  return durable;
}

namespace {

TEST_CASE("power loss: what was synced stays, and what was not may go in whole or in part") {
  using Kind = DiskOperation::Kind;
  const DiskImage before{{"a", std::string(2'048, '.')}};
  const std::vector<DiskOperation> operations{
      {.kind = Kind::kWrite, .file = "a", .position = 0, .bytes = std::string(1'024, '1')},
      {.kind = Kind::kSync, .file = "a"},
      {.kind = Kind::kWrite, .file = "a", .position = 500, .bytes = std::string(1'548, '2')},
      {.kind = Kind::kWrite, .file = "b", .position = 2, .bytes = "xy"},
      {.kind = Kind::kSync, .file = "b"},
  };
  Random random(1);
  auto image = image_after_power_loss(before, operations, 1, Loss::kAll, random);
  CHECK(image.at("a") == before.at("a"));
  image = image_after_power_loss(before, operations, 4, Loss::kAll, random);
  CHECK(image.at("a") == std::string(1'024, '1') + std::string(1'024, '.'));
  CHECK(image["b"].empty());
  image = image_after_power_loss(before, operations, 5, Loss::kAll, random);
  CHECK(image.at("b") == std::string("\0\0xy", 4));
  int torn = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string a = image_after_power_loss(before, operations, 5, Loss::kSomeSectors, random).at("a");
    CHECK(a.size() == 2'048);
    CHECK(a.substr(0, 500) == std::string(500, '1'));
    for (const std::size_t sector : {512U, 1'024U, 1'536U})
      CHECK(a.substr(sector, 512) == std::string(512, a[sector]));  // Within a sector it is all or nothing.
    torn += a[512] != a[1'536] || a[500] != a[512] ? 1 : 0;
  }
  CHECK(torn > 10);
}

}  // namespace
}  // namespace tranche::journal
