// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much memory will the driver take to load this image? Only the driver knows, and only afterwards; but
// what it took is remembered for the whole tenant, and reserved before the same image is loaded again.
#include <cstdint>

#include "guard/image_sizes.hpp"
#include "guard/region.hpp"

namespace tranche::guard::cuda {

struct Image {
  std::uint64_t key = 0;  // Zero: nothing is known that could tell it from others.
  ImageForm form = ImageForm::kText;
  StatedSize stated;  // What the image itself says.
};

// `code` as cuModuleLoadData takes it: ELF, a fat binary or its wrapper, or text.
Image image_of(const void* code);
Image image_in_file(const char* path);

struct ImageBound {
  std::uint64_t bytes = 0;
  bool exact = false;  // This very image was loaded before.
};
// Never less than what an image seen before took; for an unknown one what it says of itself, and where that
// is not all, at least the largest of its form so far, rounded up to a power of two.
ImageBound bound_of(const DeviceLedger& ledger, const Image& image);
// `typical`: others of its form may be expected to be as large.
void learn_image(DeviceLedger& ledger, const Image& image, std::uint64_t bytes, bool typical);

}  // namespace tranche::guard::cuda
