// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job does, in the words that sizing and units of progress need: its kind, its model, its pictures.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"

namespace tranche::wire {

enum class WorkloadKind : std::uint8_t {
  kBatch,
  kInference,
  kFinetune,
  kTraining,
  kRender,
  kVideo,
  kInteractive
};
BOOST_DESCRIBE_ENUM(WorkloadKind, kBatch, kInference, kFinetune, kTraining, kRender, kVideo, kInteractive)
constexpr std::size_t kWorkloadKinds = 7;

enum class Precision : std::uint8_t { kFp16, kBf16, kFp32, kFp8, kInt8, kInt4 };
BOOST_DESCRIBE_ENUM(Precision, kFp16, kBf16, kFp32, kFp8, kInt8, kInt4)

enum class TuningMethod : std::uint8_t { kFull, kLora, kQlora };
BOOST_DESCRIBE_ENUM(TuningMethod, kFull, kLora, kQlora)

// A language model and how it is used. `model: 13b` is short for {class: …}.
struct ModelUse {
  std::string name{};           // 13b, llama-3-8b: a class or a known model.
  std::int64_t parameters = 0;  // When it is neither; zero: by name.
  Precision precision = Precision::kFp16;
  TuningMethod method = TuningMethod::kFull;
  std::uint32_t context = 0;  // Tokens a sequence; zero: the usual for the kind.
  std::uint32_t users = 0;    // Sequences at once; zero: one.
  std::uint32_t batch = 0;    // Of training; zero: one.
  std::uint32_t rank = 0;     // Of LoRA; zero: 16.
  std::uint32_t prompt = 0;   // Of the context; zero: all but the last 2048 tokens, and at least half.
  std::uint32_t devices = 0;  // The model is spread over so many; zero: as many as it needs.
  std::uint32_t zero = 0;     // ZeRO stage.
  bool keep_activations = false;
  bool adam_8bit = false;
  std::string config{};  // Text of a config.json; what follows from it stays, the text does not.
  bool operator==(const ModelUse&) const = default;
};
BOOST_DESCRIBE_STRUCT(ModelUse,
                      (),
                      (name,
                       parameters,
                       precision,
                       method,
                       context,
                       users,
                       batch,
                       rank,
                       prompt,
                       devices,
                       zero,
                       keep_activations,
                       adam_8bit,
                       config))

// Pictures of a render or a video.
struct MediaUse {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t frames = 0;
  std::uint32_t samples = 0;  // Of a render, per pixel.
  std::uint32_t frames_per_second = 0;
  std::string codec{};
  std::string resolution{};        // 1080p, 4k: instead of width and height.
  std::vector<Duration> pieces{};  // Of a clip, one for each unit of the job.
  std::uint32_t seconds = 0;       // Of a video.
  std::uint32_t streams = 0;       // Videos at once; zero: one.
  Bytes scene{};                   // What a scene takes on the device; zero: 4 GB.
  bool operator==(const MediaUse&) const = default;
};
BOOST_DESCRIBE_STRUCT(
    MediaUse,
    (),
    (width, height, frames, samples, frames_per_second, codec, resolution, pieces, seconds, streams, scene))

template <>
struct Fields<ModelUse> {
  static constexpr std::string_view kAbout = "A language model and how it is used; the name alone is enough.";
  static constexpr std::array kAliases{
      Alias{"class", "name"}, Alias{"params", "parameters"}, Alias{"sequence", "context"}};
  static constexpr std::array kDocs{
      FieldDoc{"name", "A class such as 13b, or a known model such as llama-3-8b."},
      FieldDoc{"parameters", "Number of parameters, for a model that has no known name."},
      FieldDoc{"context", "Tokens a sequence."},
      FieldDoc{"users", "Sequences served at once."},
      FieldDoc{"rank", "Rank of the LoRA adapters."},
      FieldDoc{"prompt", "Of the context; else all but the last 2048 tokens, and at least half."},
      FieldDoc{"devices", "Devices that the model is spread over; else as many as it needs."},
      FieldDoc{"zero", "ZeRO stage of training, 0 to 3."},
      FieldDoc{"keep_activations", "No checkpointing of activations in training."},
      FieldDoc{"adam_8bit", "State of the optimiser in 8 bits."},
      FieldDoc{"config", "Text of the model's config.json, instead of a name."},
  };
  static constexpr bool kOmitDefaults = true;
  static constexpr std::string_view kTextSchema = R"("type":"string","examples":["13b"])";
  static Result<ModelUse, std::string> from_text(std::string_view text) {
    ModelUse use;
    use.name = text;
    return use;
  }
};

template <>
struct Fields<MediaUse> {
  static constexpr std::string_view kAbout = "Size and number of the pictures of a render or a video.";
  static constexpr std::array kDocs{
      FieldDoc{"pieces",
               "How long the piece of a clip is that each unit works on: progress, price and quota count its "
               "seconds."},
      FieldDoc{"samples", "Of a pixel of a render."},
      FieldDoc{"codec", "h264, hevc, hevc10, av1 or av1-10."},
      FieldDoc{"resolution", "1080p, 4k, 8k or 1920x1080, instead of width and height."},
      FieldDoc{"seconds", "Length of a video."},
      FieldDoc{"streams", "Videos at once."},
      FieldDoc{"scene", "What a scene takes on the device; else 4GB."},
  };
  static constexpr bool kOmitDefaults = true;
};

}  // namespace tranche::wire
