// SPDX-License-Identifier: Apache-2.0
#include "wire/codec.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "wire/codec_impl.hpp"

namespace tranche::wire {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;

enum class Colour : std::uint8_t { kRed = 1, kDarkGreen = 2, kRGBBlue = 7 };
BOOST_DESCRIBE_ENUM(Colour, kRed, kDarkGreen, kRGBBlue)

struct Inner {
  std::int32_t left = -1;
  std::optional<std::string> note;
  bool operator==(const Inner&) const = default;
};
BOOST_DESCRIBE_STRUCT(Inner, (), (left, note))

struct Everything {
  bool flag = false;
  std::int8_t tiny = 0;
  std::uint8_t small = 0;
  std::int64_t wide = 0;
  std::uint64_t huge = 0;
  Colour colour = Colour::kRed;
  std::string name;
  Instant at{};
  Duration length{};
  Money price{};
  Bytes size{};
  PartyId party{};
  JobId job{};
  std::optional<Duration> patience;
  std::vector<Inner> inners;
  std::array<std::uint16_t, 3> triple{};
  std::map<std::string, std::int64_t> counts;
  std::map<NodeId, Inner> by_node;
  Inner inner;
  bool operator==(const Everything&) const = default;
};
BOOST_DESCRIBE_STRUCT(Everything,
                      (),
                      (flag,
                       tiny,
                       small,
                       wide,
                       huge,
                       colour,
                       name,
                       at,
                       length,
                       price,
                       size,
                       party,
                       job,
                       patience,
                       inners,
                       triple,
                       counts,
                       by_node,
                       inner))

struct Ask {
  std::string run;
  std::uint32_t num_nodes = 1;
  std::optional<Inner> inner;
  Colour colour = Colour::kDarkGreen;
  bool operator==(const Ask&) const = default;
};
BOOST_DESCRIBE_STRUCT(Ask, (), (run, num_nodes, inner, colour))

struct Old {
  std::int64_t first = 0;
  std::string second;
  bool operator==(const Old&) const = default;
};
BOOST_DESCRIBE_STRUCT(Old, (), (first, second))
struct New {
  std::int64_t first = 0;
  std::string second;
  Bytes third{77};
  std::vector<std::string> fourth{"usual"};
  bool operator==(const New&) const = default;
};
BOOST_DESCRIBE_STRUCT(New, (), (first, second, third, fourth))
template <class T>
struct Holder {
  std::vector<T> items;
  T last{};
  bool operator==(const Holder&) const = default;
};
using OldHolder = Holder<Old>;
using NewHolder = Holder<New>;
BOOST_DESCRIBE_STRUCT(OldHolder, (), (items, last))
BOOST_DESCRIBE_STRUCT(NewHolder, (), (items, last))

struct Report {
  double share = 0;
};
BOOST_DESCRIBE_STRUCT(Report, (), (share))

}  // namespace

template <>
struct Fields<Ask> {
  static constexpr std::string_view kAbout = "A thing asked for.";
  static constexpr std::array kRequired{"run"sv};
  static constexpr std::array kAliases{Alias{"nodes", "num_nodes"}};
  static constexpr std::array kDocs{FieldDoc{"run", "The \"command\"."}};
  static constexpr bool kOmitDefaults = true;
  static std::optional<Problem> check(const Ask& ask) {
    if (ask.num_nodes > 0) return std::nullopt;
    return Problem{.path = "num_nodes", .message = "must be at least 1", .hint = {}};
  }
};

namespace {

std::string random_text(Random& random) {
  static constexpr std::array kPieces{
      "a"sv, "Z"sv, "\""sv, "\\"sv, "\n"sv, "\x01"sv, "é"sv, "\U0001F600"sv, " "sv};
  std::string out;
  for (std::uint64_t i = random.below(12); i > 0; --i) out += kPieces[random.below(kPieces.size())];
  return out;
}
std::uint64_t random_word(Random& random) {
  return random.next() >> random.below(64);
}
std::int64_t random_signed(Random& random) {
  const auto value = static_cast<std::int64_t>(random_word(random) >> 1U);
  return random.below(2) == 0 ? value : -value;
}
Inner random_inner(Random& random) {
  Inner inner{.left = static_cast<std::int32_t>(random.next()), .note = std::nullopt};
  if (random.below(2) == 0) inner.note = random_text(random);
  return inner;
}

Everything random_everything(Random& random) {
  Everything all;
  all.flag = random.below(2) == 0;
  all.tiny = static_cast<std::int8_t>(random.next());
  all.small = static_cast<std::uint8_t>(random.next());
  all.wide = random_signed(random);
  all.huge = random_word(random);
  all.colour = std::array{Colour::kRed, Colour::kDarkGreen, Colour::kRGBBlue}[random.below(3)];
  all.name = random_text(random);
  all.at = Instant(Duration(random_signed(random) % 60'000'000'000'000'000));
  all.length = Duration(random_signed(random));
  all.price = {random_signed(random)};
  all.size = {random_signed(random)};
  all.party = PartyId::make(PartyKind::kUser, random.below(1U << 30U));
  all.job = {random_word(random)};
  if (random.below(2) == 0) all.patience = Duration(random_signed(random));
  for (std::uint64_t i = random.below(4); i > 0; --i) all.inners.push_back(random_inner(random));
  for (auto& part : all.triple) part = static_cast<std::uint16_t>(random.next());
  for (std::uint64_t i = random.below(4); i > 0; --i) all.counts[random_text(random)] = random_signed(random);
  for (std::uint64_t i = random.below(4); i > 0; --i)
    all.by_node[{random_word(random)}] = random_inner(random);
  all.inner = random_inner(random);
  return all;
}

TEST_CASE("codec: any value survives JSON and the record form") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Everything all = random_everything(random);
    const auto from_text = from_json<Everything>(to_json(all));
    REQUIRE_MESSAGE(from_text.has_value(), text(from_text.error()));
    CHECK(*from_text == all);
    std::string bytes;
    encode(bytes, all);
    const auto from_bytes = decode<Everything>(bytes);
    REQUIRE(from_bytes.has_value());
    CHECK(*from_bytes == all);
  }
}

TEST_CASE("codec: JSON is what the conventions say") {
  Everything all;
  all.colour = Colour::kRGBBlue;
  all.name = "a\"b\n\xFF";
  all.at = Instant(1'794'773'395s);
  all.length = 90min;
  all.price = {1'250'000};
  all.size = gigabytes(20);
  all.party = PartyId::make(PartyKind::kTenant, 1);
  all.job = {32};
  all.counts = {{"x", -1}};
  all.by_node = {{NodeId{1}, {}}};
  CHECK(to_json(all) ==
        R"({"flag":false,"tiny":0,"small":0,"wide":0,"huge":0,"colour":"rgb_blue","name":"a\"b\n)"
        "\xEF\xBF\xBD"
        R"(","at":"2026-11-15T20:09:55Z","length":"1h30m","price":"1.25","size":20000000000,)"
        R"("party":"ten_000001","job":"job_000010","inners":[],"triple":[0,0,0],"counts":{"x":-1},)"
        R"("by_node":{"node_000001":{"left":-1}},"inner":{"left":-1}})");
  CHECK(to_json(Report{.share = 0.25}) == R"({"share":0.25})");
  CHECK(to_json(Ask{.run = "x", .num_nodes = 1, .inner = {}, .colour = Colour::kDarkGreen}) ==
        R"({"run":"x"})");
}

template <class T>
std::string problem_of(std::string_view json, JsonLimits limits = {}) {
  const auto value = from_json<T>(json, limits);
  return value ? "no problem" : text(value.error());
}

TEST_CASE("codec: what is wrong with a text is said with its place and the nearest right form") {
  CHECK(problem_of<Ask>(R"({"run":"x","num_node":2})") ==
        "num_node: unknown key 'num_node' (did you mean 'num_nodes'?)");
  CHECK(problem_of<Ask>(R"({"run":"x","zzzzzz":2})") == "zzzzzz: unknown key 'zzzzzz'");
  CHECK(problem_of<Ask>(R"({"run":"x","inner":{"lefd":2}})") ==
        "inner.lefd: unknown key 'lefd' (did you mean 'left'?)");
  CHECK(problem_of<Ask>(R"({})") == "run: is required");
  CHECK(problem_of<Ask>(R"({"run":7})") == "run: must be a string, not a number");
  CHECK(problem_of<Ask>(R"({"run":null})") == "run: must be a string, not null");
  CHECK(problem_of<Ask>(R"({"run":"x","run":"y"})") == "run: is given twice");
  CHECK(problem_of<Ask>(R"({"run":"x","nodes":1,"num_nodes":2})") == "num_nodes: is given twice");
  CHECK(problem_of<Ask>(R"({"run":"x","num_nodes":0})") == "num_nodes: must be at least 1");
  CHECK(problem_of<Ask>(R"({"run":"x","num_nodes":-1})") == "num_nodes: must be between 0 and 4294967295");
  CHECK(problem_of<Ask>(R"({"run":"x","num_nodes":1.5})") == "num_nodes: must be a whole number");
  CHECK(problem_of<Ask>(R"({"run":"x","colour":"dark_gren"})") ==
        "colour: 'dark_gren' is not one of red, dark_green, rgb_blue (did you mean 'dark_green'?)");
  CHECK(problem_of<Ask>(R"([])") == "must be an object, not a list");
  CHECK(problem_of<Everything>(R"({"small":256})") == "small: must be between 0 and 255");
  CHECK(problem_of<Everything>(R"({"tiny":-129})") == "tiny: must be between -128 and 127");
  CHECK(problem_of<Everything>(R"({"huge":18446744073709551616})") == "huge: must be a whole number");
  CHECK(problem_of<Everything>(R"({"inners":[{},{"left":"x"}]})") ==
        "inners[1].left: must be a whole number, not a string");
  CHECK(problem_of<Everything>(R"({"counts":{"a":1,"a":2}})") == "counts.a: is given twice");
  CHECK(problem_of<Everything>(R"({"triple":[1,2]})") == "triple: must have 3 elements");
  CHECK(problem_of<Everything>(R"({"at":"yesterday"})") == "at: must be a time such as 2026-11-15T20:00:00Z");
  CHECK(problem_of<Everything>(R"({"length":"soon"})") ==
        "length: must be a duration such as 30m, 1h30m or 90 (seconds)");
  CHECK(problem_of<Everything>(R"({"job":"node_000001"})") == "job: must be an id such as job_000001");
  CHECK(problem_of<Everything>(R"({"by_node":{"x":{}}})") ==
        "by_node.x: key must be an id such as node_000001");
}

TEST_CASE("codec: text that is not JSON is refused with line and column") {
  CHECK(problem_of<Ask>("{\"run\":\n  oops}") == "line 2: not valid JSON at column 3: syntax error");
  CHECK(problem_of<Ask>("{\"run\":\"x\"") == "line 1: not valid JSON at column 11: the text ends too early");
  CHECK(problem_of<Ask>("{\"run\":\"x\"} {}") ==
        "line 1: not valid JSON at column 13: there is more after the end of the value");
  CHECK(problem_of<Ask>("") == "line 1: not valid JSON at column 1: the text ends too early");
  CHECK(problem_of<Ask>("{\"run\":\"\xC3\x28\"}").find("not valid JSON") != std::string::npos);
  CHECK(problem_of<Ask>(R"({"run":"x"})", {.bytes_max = 5}) == "is 11 bytes long; at most 5 are taken");
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  CHECK(problem_of<Ask>(deep) == "line 1: not valid JSON at column 33: too many levels of nesting");
}

TEST_CASE("codec: numbers stand where the conventions allow them") {
  const auto all = from_json<Everything>(
      R"({"length":90,"size":"20GiB","price":2.5,"wide":-9223372036854775808,"huge":18446744073709551615})");
  REQUIRE(all.has_value());
  CHECK(all->length == 90s);
  CHECK(all->size == gibibytes(20));
  CHECK(all->price == Money{2'500'000});
  CHECK(all->wide == INT64_MIN);
  CHECK(all->huge == UINT64_MAX);
  CHECK(from_json<Ask>(R"({"run":"\u00e9\n\ud83d\ude00x","nodes":3})")->run == "é\n\U0001F600x");
  CHECK(from_json<Ask>(R"({"run":"x","nodes":3,"inner":null})")->num_nodes == 3);
  CHECK(from_json<Report>(R"({"share":1e-3})")->share == 0.001);
}

TEST_CASE("codec: records of an older struct give defaults, of a newer one are read as far as known") {
  const OldHolder old{.items = {{.first = 1, .second = "a"}, {.first = -2, .second = std::string(300, 'b')}},
                      .last = {.first = 3, .second = "c"}};
  std::string bytes;
  encode(bytes, old);
  const auto grown = decode<NewHolder>(bytes);
  REQUIRE(grown.has_value());
  CHECK(grown->items[1].first == -2);
  CHECK(grown->items[1].second == std::string(300, 'b'));
  CHECK(grown->items[1].third == Bytes{77});
  CHECK(grown->last.fourth == std::vector<std::string>{"usual"});

  NewHolder newer{.items = {{.first = 5, .second = "x"}}, .last = {.first = 6, .second = "y"}};
  newer.last.fourth = {"p", "q"};
  bytes.clear();
  encode(bytes, newer);
  const auto shrunk = decode<OldHolder>(bytes);
  REQUIRE(shrunk.has_value());
  CHECK(shrunk->items == std::vector<Old>{{.first = 5, .second = "x"}});
  CHECK(shrunk->last == Old{.first = 6, .second = "y"});
}

struct BeforeOptional {
  std::int32_t first = 0;
  Instant when{};
  std::int32_t last = 0;
};
BOOST_DESCRIBE_STRUCT(BeforeOptional, (), (first, when, last))
struct WithOptional {
  std::int32_t first = 0;
  std::optional<Instant> when{};
  std::int32_t last = 0;
};
BOOST_DESCRIBE_STRUCT(WithOptional, (), (first, when, last))

}  // namespace

template <>
struct Fields<WithOptional> {
  static constexpr std::array<std::string_view, 1> kOncePlain{"when"};
};

namespace {

TEST_CASE("codec: a field that became optional keeps the bytes that it had") {
  for (const Instant when : {Instant{}, Instant(99h)}) {
    std::string old;
    detail::write_record(old, BeforeOptional{1, when, 2});
    detail::RecordReader reader(old);
    WithOptional read;
    REQUIRE(detail::read_record(reader, read));
    CHECK(read.when.has_value() == (when != Instant{}));
    CHECK(read.when.value_or(Instant{}) == when);
    CHECK(read.last == 2);
    std::string fresh;
    detail::write_record(fresh, read);
    CHECK(fresh == old);
  }
  std::string json;
  detail::write_json(json, WithOptional{1, {}, 2});
  CHECK(json == R"({"first":1,"last":2})");
}

TEST_CASE("codec: the bytes of a record are fixed for ever") {
  std::string bytes;
  encode(bytes, Old{.first = -3, .second = "hi"});
  CHECK(bytes == std::string("\x04\x05\x02hi"));
  bytes.clear();
  encode(bytes, Old{.first = 300, .second = std::string(200, 'x')});
  CHECK(bytes.substr(0, 6) == std::string("\xCC\x01\xD8\x04\xC8\x01"));
}

TEST_CASE("codec: a record cut short, bent or made up gives a value or a reason, never more") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::string bytes;
    encode(bytes, random_everything(random));
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      CHECK_FALSE(decode<Everything>(std::string_view(bytes).substr(0, cut)).has_value());
    }
    for (int i = 0; i < 50; ++i) {
      std::string bent = bytes;
      bent[random.below(bent.size())] ^= static_cast<char>(1U << random.below(8));
      if (const auto value = decode<Everything>(bent)) {
        std::string again;
        encode(again, *value);
        CHECK(decode<Everything>(again) == value);
      }
    }
  }
  CHECK(decode<Old>("\x04\x05\x02hi!").error() == "there are bytes after the end of the record");
  CHECK(decode<Old>("\x04\x05\x09hi").error() == "a string is longer than the record");
  CHECK(decode<std::vector<Old>>("\xFF\xFF\xFF\xFF\x0F").error() == "a list is longer than the record");
  CHECK(decode<bool>("\x02").error() == "a yes-or-no byte is neither");
  CHECK(decode<Colour>("\x03").error() == "an enumerator is unknown");
  CHECK(decode<std::uint8_t>("\x80\x02").error() == "a number does not fit its field");
  CHECK(decode<std::uint64_t>(std::string_view("\x80\x00", 2)).error() ==
        "a number is written longer than it is");
  CHECK(decode<std::uint64_t>("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02").error() ==
        "a number has more than 64 bits");
  CHECK((decode<std::map<std::string, bool>>(std::string_view("\x02\x01z\0\x01"
                                                              "a\0",
                                                              7))
             .error()) == "the keys of a map are out of order");
}

TEST_CASE("codec: a schema names nested types and says what is required") {
  CHECK(json_schema<Ask>() ==
        R"({"type":"object","description":"A thing asked for.","properties":{)"
        R"("run":{"type":"string","description":"The \"command\"."},)"
        R"("num_nodes":{"type":"integer","minimum":0,"maximum":4294967295,"default":1},)"
        R"("inner":{"$ref":"#/components/schemas/Inner"},)"
        R"("colour":{"$ref":"#/components/schemas/Colour","default":"dark_green"},)"
        R"("nodes":{"description":"Another name for num_nodes."}},)"
        R"("required":["run"],"additionalProperties":false})");
  Schemas schemas;
  collect_schemas<Everything>(schemas);
  CHECK(schemas.size() == 3);
  CHECK(schemas.at("Colour") == R"({"type":"string","enum":["red","dark_green","rgb_blue"]})");
  CHECK(schemas.contains("Inner"));
  CHECK(schemas.at("Everything").find(R"("by_node":{"type":"object","additionalProperties":{"$ref":)") !=
        std::string::npos);
  CHECK(json_schema<Holder<Old>>({.reference = "#/$defs/"}).find(R"("$ref":"#/$defs/Old")") !=
        std::string::npos);
}

}  // namespace
}  // namespace tranche::wire
