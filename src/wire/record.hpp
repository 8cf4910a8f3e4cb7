// SPDX-License-Identifier: Apache-2.0
#pragma once
// Described values as journal records: varints, zigzag where a sign may occur, and each struct with its
// length in front, which is what lets fields be added at the end without a new version.
//
// Reading is total: whatever the bytes, the answer is a value or a reason, and what is allocated is bounded
// by the bytes that are there. Maps must be in order and bools be 0 or 1, so that a value has one encoding
// only.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "wire/fields.hpp"
#include "wire/json_writer.hpp"

namespace tranche::wire::detail {

inline void write_varint(std::string& out, std::uint64_t value) {
  if (value < 0x80) {
    out.push_back(static_cast<char>(value));
    return;
  }
  char bytes[10];
  std::size_t used = 0;
  for (; value >= 0x80; value >>= 7U) bytes[used++] = static_cast<char>(value | 0x80U);
  bytes[used++] = static_cast<char>(value);
  out.append(bytes, used);
}
constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1U) ^ -static_cast<std::int64_t>(value & 1U);
}

template <class T>
void write_record(std::string& out, const T& value);

template <class T>
void write_record_struct(std::string& out, const T& value) {
  const std::size_t start = out.size();
  out.push_back('\0');  // Room for the usual one-byte length; moved only for structs of 128 bytes and more.
  boost::mp11::mp_for_each<Members<T>>([&](auto member) {
    const auto& field = value.*decltype(member)::pointer;
    if constexpr (is_once_plain<T>(decltype(member)::name)) {
      write_record(out, field.value_or(typename std::decay_t<decltype(field)>::value_type{}));
    } else {
      write_record(out, field);
    }
  });
  const std::size_t length = out.size() - start - 1;
  if (length < 0x80) {
    out[start] = static_cast<char>(length);
    return;
  }
  std::string prefix;
  write_varint(prefix, length);
  out.replace(start, 1, prefix);
}

template <class T>
void write_record(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    out.push_back(value ? '\1' : '\0');
  } else if constexpr (PlainInteger<T> && std::is_signed_v<T>) {
    write_varint(out, zigzag(value));
  } else if constexpr (PlainInteger<T>) {
    write_varint(out, value);
  } else if constexpr (std::is_enum_v<T>) {
    write_record(out, static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    write_varint(out, value.size());
    out.append(value);
  } else if constexpr (std::is_same_v<T, Instant>) {
    write_varint(out, zigzag(value.time_since_epoch().count()));
  } else if constexpr (std::is_same_v<T, Duration>) {
    write_varint(out, zigzag(value.count()));
  } else if constexpr (std::is_same_v<T, Money>) {
    write_varint(out, zigzag(value.micros));
  } else if constexpr (std::is_same_v<T, Bytes>) {
    write_varint(out, zigzag(value.count));
  } else if constexpr (IsId<T>) {
    write_varint(out, value.value);
  } else if constexpr (IsOptional<T>::value) {
    out.push_back(value ? '\1' : '\0');
    if (value) write_record(out, *value);
  } else if constexpr (IsVector<T>::value || IsArray<T>::value) {
    write_varint(out, value.size());
    for (const auto& element : value) write_record(out, element);
  } else if constexpr (IsMap<T>::value || std::is_same_v<T, TextMap>) {
    write_varint(out, value.size());
    for (const auto& [key, element] : value) {
      write_record(out, key);
      write_record(out, element);
    }
  } else if constexpr (Described<T>) {
    write_record_struct(out, value);
  } else {
    static_assert(kUnsupported<T>,
                  "no record form: describe the type, and keep doubles to reports (JSON only)");
  }
}

// Bytes still to be read. A failed read leaves a reason; readers stop at the first.
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  [[nodiscard]] const char* reason() const { return reason_; }

  bool fail(const char* reason) {
    reason_ = reason;
    return false;
  }
  bool byte(std::uint8_t& out) {
    if (at_ == end_) return fail("the record is cut short");
    out = static_cast<std::uint8_t>(*at_++);
    return true;
  }
  bool varint(std::uint64_t& out) {
    if (at_ != end_ && static_cast<std::uint8_t>(*at_) < 0x80) {
      out = static_cast<std::uint8_t>(*at_++);
      return true;
    }
    return long_varint(out);
  }
  bool text(std::string& out) {
    std::uint64_t size = 0;
    if (!varint(size)) return false;
    if (size > left()) return fail("a string is longer than the record");
    out.assign(at_, size);
    at_ += size;
    return true;
  }
  // The next `size` bytes as a reader of their own.
  bool part(RecordReader& out) {
    std::uint64_t size = 0;
    if (!varint(size)) return false;
    if (size > left()) return fail("a struct is longer than the record");
    if (depth_ == kDepthMax) return fail("structs are nested too deeply");
    out.at_ = at_;
    out.end_ = at_ + size;
    out.depth_ = depth_ + 1;
    at_ += size;
    return true;
  }
  // A count of elements of one byte or more each.
  bool count(std::uint64_t& out) {
    if (!varint(out)) return false;
    return out <= left() || fail("a list is longer than the record");
  }

 private:
  static constexpr int kDepthMax = 64;
  bool long_varint(std::uint64_t& out);

  const char* at_ = nullptr;
  const char* end_ = nullptr;
  const char* reason_ = nullptr;
  int depth_ = 0;
};

template <class T>
bool read_record(RecordReader& reader, T& out);

template <class T>
bool read_record_integer(RecordReader& reader, T& out) {
  std::uint64_t raw = 0;
  if (!reader.varint(raw)) return false;
  if constexpr (std::is_signed_v<T>) {
    const std::int64_t value = unzigzag(raw);
    out = static_cast<T>(value);
    return out == value || reader.fail("a number does not fit its field");
  } else {
    out = static_cast<T>(raw);
    return out == raw || reader.fail("a number does not fit its field");
  }
}

template <class E>
bool read_record_enum(RecordReader& reader, E& out) {
  std::underlying_type_t<E> raw = 0;
  if (!read_record_integer(reader, raw)) return false;
  out = static_cast<E>(raw);
  if constexpr (DescribedEnum<E>) {
    for (const E known : EnumTable<E>::kValues) {
      if (known == out) return true;
    }
    return reader.fail("an enumerator is unknown");
  }
  return true;
}

template <class T>
bool read_record_struct(RecordReader& reader, T& out) {
  RecordReader part({});
  if (!reader.part(part)) return false;
  bool good = true;
  boost::mp11::mp_for_each<Members<T>>([&](auto member) {
    // Old records end before fields that were added later: those keep their default.
    if (!good || part.left() == 0) return;
    auto& field = out.*decltype(member)::pointer;
    if constexpr (is_once_plain<T>(decltype(member)::name)) {
      typename std::decay_t<decltype(field)>::value_type plain{};
      good = read_record(part, plain);
      if (plain != decltype(plain){}) field = plain;
    } else {
      good = read_record(part, field);
    }
  });
  return good || reader.fail(part.reason());
}

template <class K, class V>
bool read_record_map(RecordReader& reader, std::map<K, V>& out) {
  std::uint64_t count = 0;
  if (!reader.count(count)) return false;
  out.clear();
  for (std::uint64_t i = 0; i < count; ++i) {
    K key{};
    V value{};
    if (!read_record(reader, key) || !read_record(reader, value)) return false;
    if (!out.empty() && !(out.rbegin()->first < key))
      return reader.fail("the keys of a map are out of order");
    out.emplace_hint(out.end(), std::move(key), std::move(value));
  }
  return true;
}

bool read_record_text_map(RecordReader& reader, TextMap& out);

template <class T>
bool read_record_vector(RecordReader& reader, std::vector<T>& out) {
  std::uint64_t count = 0;
  if (!reader.count(count)) return false;
  out.clear();
  if (count <= 64) out.reserve(count);  // More than that must prove itself, element by element.
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!read_record(reader, out.emplace_back())) return false;
  }
  return true;
}

inline bool read_record_bool(RecordReader& reader, bool& out) {
  std::uint8_t raw = 0;
  if (!reader.byte(raw)) return false;
  out = raw == 1;
  return raw <= 1 || reader.fail("a yes-or-no byte is neither");
}

template <class Optional>
bool read_record_optional(RecordReader& reader, Optional& out) {
  bool present = false;
  if (!read_record_bool(reader, present)) return false;
  out.reset();
  return !present || read_record(reader, out.emplace());
}

template <class T, std::size_t N>
bool read_record_array(RecordReader& reader, std::array<T, N>& out) {
  std::uint64_t count = 0;
  if (!reader.count(count)) return false;
  if (count != N) return reader.fail("a fixed list has another length");
  for (T& element : out) {
    if (!read_record(reader, element)) return false;
  }
  return true;
}

template <class T>
bool read_record(RecordReader& reader, T& out) {
  std::int64_t raw = 0;
  if constexpr (std::is_same_v<T, bool>) {
    return read_record_bool(reader, out);
  } else if constexpr (PlainInteger<T>) {
    return read_record_integer(reader, out);
  } else if constexpr (std::is_enum_v<T>) {
    return read_record_enum(reader, out);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return reader.text(out);
  } else if constexpr (std::is_same_v<T, Instant>) {
    return read_record_integer(reader, raw) && (out = Instant(Duration(raw)), true);
  } else if constexpr (std::is_same_v<T, Duration>) {
    return read_record_integer(reader, raw) && (out = Duration(raw), true);
  } else if constexpr (std::is_same_v<T, Money>) {
    return read_record_integer(reader, out.micros);
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return read_record_integer(reader, out.count);
  } else if constexpr (IsId<T>) {
    return read_record_integer(reader, out.value);
  } else if constexpr (IsOptional<T>::value) {
    return read_record_optional(reader, out);
  } else if constexpr (IsVector<T>::value) {
    return read_record_vector(reader, out);
  } else if constexpr (IsArray<T>::value) {
    return read_record_array(reader, out);
  } else if constexpr (IsMap<T>::value) {
    return read_record_map(reader, out);
  } else if constexpr (std::is_same_v<T, TextMap>) {
    return read_record_text_map(reader, out);
  } else if constexpr (Described<T>) {
    return read_record_struct(reader, out);
  } else {
    static_assert(kUnsupported<T>,
                  "no record form: describe the type, and keep doubles to reports (JSON only)");
  }
}

}  // namespace tranche::wire::detail
