// The JSON format: values that fit are on one line, and everything reads back the same.

#include "core/json_text.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/random.hpp"

namespace core {
namespace {

using nlohmann::ordered_json;
using support::Random;

constexpr std::size_t kWidth = 120;

TEST_CASE("json_text: what fits on a line stands on one") {
  CHECK(json_text({{"b", 1}, {"a", {1, 2.5, "x", true, nullptr}}, {"c", {{"d", 0.1}}}}) ==
        "{\"b\": 1, \"a\": [1, 2.5, \"x\", true, null], \"c\": {\"d\": 0.1}}\n");
  CHECK(json_text(ordered_json::object()) == "{}\n");
  CHECK(json_text(ordered_json::array()) == "[]\n");
  CHECK(json_text(3) == "3\n");
  CHECK(json_text({{"a", ordered_json::array()}, {"b", ordered_json::object()}}) ==
        "{\"a\": [], \"b\": {}}\n");
}

TEST_CASE("json_text: what does not fit stands an item a line, two blanks deeper") {
  const std::string word(50, 'w');
  CHECK(json_text({{"a", {word, word, word}}, {"b", {word, word}}, {"c", 1}}) ==
        "{\n  \"a\": [\n    \"" + word + "\",\n    \"" + word + "\",\n    \"" + word +
            "\"\n  ],\n  \"b\": [\"" + word + "\", \"" + word + "\"],\n  \"c\": 1\n}\n");
}

TEST_CASE("json_text: a line holds 120 characters and no more") {
  const auto array = [](std::size_t letters) { return ordered_json{std::string(letters, 'x'), 1}; };
  const std::size_t fits = kWidth - std::string(R"(["", 1])").size();
  CHECK(json_text(array(fits)).size() == kWidth + 1);
  CHECK(json_text(array(fits + 1)).find('\n') == 1);
}

TEST_CASE("json_text: text is escaped, and what is not UTF-8 replaced") {
  CHECK(json_text("a\"b\\\n\x01") == "\"a\\\"b\\\\\\n\\u0001\"\n");
  CHECK(json_text({{"\n", 1}}) == "{\"\\n\": 1}\n");
  CHECK(json_text("\xff") == "\"\xef\xbf\xbd\"\n");
  CHECK(json_text("\xc3\xa9") == "\"\xc3\xa9\"\n");
}

TEST_CASE("json_text: numbers are the shortest that read back the same") {
  CHECK(json_text({0.1, 1.0 / 3, 1e12, 12345678901234567890U, -5, 1e-7}) ==
        "[0.1, 0.3333333333333333, 1000000000000.0, 12345678901234567890, -5, 1e-07]\n");
}

std::string random_text(Random& random) {
  const std::vector<std::string> letters = {
      "a", "b", "\"", "\\", "\n", "/", "\xc3\xbc", "\x01", " ", "{", "\xf0\x9f\x98\x80"};
  std::string out;
  for (std::uint32_t i = random.below(30); i-- > 0;)
    out += letters[random.below(static_cast<std::uint32_t>(letters.size()))];
  return out;
}

ordered_json random_document(Random& random, int depth) {
  switch (random.below(depth > 0 ? 8 : 5)) {
    case 0: return nullptr;
    case 1: return random.one_in(2);
    case 2: return random.between(-1'000'000, 1'000'000);
    case 3: return static_cast<double>(random.between(-1'000'000, 1'000'000)) / (1 + random.below(1'000'000));
    case 4: return random_text(random);
    case 5: {
      ordered_json out = ordered_json::array();
      for (std::uint32_t i = random.below(40); i-- > 0;) out.push_back(random.between(0, 99'999));
      return out;
    }
    case 6: {
      ordered_json out = ordered_json::array();
      for (std::uint32_t i = random.below(6); i-- > 0;) out.push_back(random_document(random, depth - 1));
      return out;
    }
    default: {
      ordered_json out = ordered_json::object();
      for (std::uint32_t i = random.below(6); i-- > 0;)
        out[random_text(random)] = random_document(random, depth - 1);
      return out;
    }
  }
}

TEST_CASE("json_text: random documents read back the same, and no line that could be split is too long") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const ordered_json document = random_document(random, 4);
    const std::string text = json_text(document);
    CHECK(ordered_json::parse(text) == document);
    CHECK(text.back() == '\n');
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      const std::string value = line.substr(0, line.find_last_not_of(',') + 1);
      const std::string end_of_value = value.substr(value.size() - std::min<std::size_t>(2, value.size()));
      const bool is_empty = end_of_value == "[]" || end_of_value == "{}";
      const bool splits = !is_empty && (value.back() == ']' || value.back() == '}');
      if (line.size() > kWidth) CHECK_FALSE(splits);
    }
  }
}

TEST_CASE("json_text: keys keep their order") {
  ordered_json out;
  for (const char* key : {"z", "a", "m"}) out[key] = 0;
  CHECK(json_text(out) == "{\"z\": 0, \"a\": 0, \"m\": 0}\n");
}

}  // namespace
}  // namespace core
