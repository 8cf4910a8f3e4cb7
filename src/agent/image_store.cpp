// SPDX-License-Identifier: Apache-2.0
#include "agent/image_store.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "agent/files.hpp"

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

// A name below the folder: never absolute, never upwards, nothing hidden.
bool stays_below(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) {
           return part.empty() || part.string().starts_with('.');
         });
}

std::optional<fs::path> place_of(const fs::path& allowed, const std::string& name) {
  for (const char* ending : {"", ".tar", ".oci"})
    if (fs::path place = allowed / (name + ending); fs::exists(place)) return place;
  return std::nullopt;
}

// What the platform shows in every job must have a place in the image, which nobody can write to later.
void make_places(const fs::path& rootfs) {
  if (!fs::exists(fs::symlink_status(rootfs / "etc"))) make_folder(rootfs / "etc", 0755);
  if (fs::is_symlink(rootfs / "etc") || !fs::is_directory(rootfs / "etc"))
    throw std::runtime_error("its /etc is no folder");
  for (const char* name : {"etc/ld.so.preload", "etc/resolv.conf", "etc/hosts"}) {
    if (fs::is_symlink(rootfs / name))
      fs::remove(rootfs / name);  // To a service of the machine it was made on.
    if (!fs::exists(rootfs / name)) write_whole(rootfs / name, "", 0644);
  }
  for (const char* name : {"etc/OpenCL", "etc/OpenCL/vendors"}) {
    if (fs::is_symlink(rootfs / name)) fs::remove(rootfs / name);
    make_folder(rootfs / name, 0755);
  }
}

}  // namespace

Result<Image, std::string> ImageStore::find(const std::string& name) const {
  if (!stays_below(name))
    return refuse("image " + name + ": an image is named by its place in this node's folder of images");
  try {
    const std::optional<fs::path> place = place_of(allowed_, name);
    if (!place)
      return refuse("image " + name + " is not on this node: its operator puts images into the folder that " +
                    "tranche agent --images names");
    const bool plain = fs::is_directory(*place) && !fs::exists(*place / "oci-layout");
    Image image = plain ? Image{.rootfs = place->string()} : unpacked(*place);
    if (!fs::exists(fs::symlink_status(fs::path(image.rootfs) / "bin/sh")) &&
        !fs::is_symlink(fs::path(image.rootfs) / "bin"))
      return refuse("image " + name + " has no /bin/sh, which starts every job");
    return image;
  } catch (const std::exception& error) { return refuse("image " + name + ": " + error.what()); }
}

Image ImageStore::unpacked(const fs::path& place) const {
  const OciImage image(place);
  const fs::path home = cache_ / ("sha256-" + image.digest().substr(7));
  if (!fs::exists(home / "config.json")) {
    make_folder(cache_, 0711);
    const fs::path part = home.string() + ".part";
    remove_tree(part);  // Of an agent that was ended in the middle.
    make_folder(part, 0711);
    make_folder(part / "rootfs", 0755);
    try {
      image.unpack(part / "rootfs");
      make_places(part / "rootfs");
    } catch (const std::exception&) {
      remove_tree(part);
      throw;
    }
    write_whole(part / "config.json", image.config(), 0600);
    fs::rename(part, home);
  }
  return {.rootfs = (home / "rootfs").string(), .config = read_image_config(image.config())};
}

}  // namespace tranche::agent
