// Text that is nearly JSON, cut at every place.

#include "profiler/traces/kineto/json_repair.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace kineto {
namespace {

/// Repairs the text in two parts, as a stream does whose buffer ends at `cut`.
std::string repaired(std::string text, std::size_t cut, std::int64_t count) {
  JsonRepair repair;
  while (cut < text.size() && JsonRepair::more_needed(text.data(), text.data() + cut)) ++cut;
  repair.repair(text.data(), text.data() + cut);
  repair.repair(text.data() + cut, text.data() + text.size());
  CHECK(repair.count() == count);
  return text;
}

void check(const std::string& text, const std::string& expected, std::int64_t count) {
  CAPTURE(text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CAPTURE(cut);
    CHECK(repaired(text, cut, count) == expected);
  }
  CHECK(nlohmann::json::accept(expected));
}

TEST_CASE("json repair: JSON stays as it is") {
  for (const std::string text :
       {R"({"a": [null, true, false, -1, 1.5e-3, 2E5], "NaN": "inf \" \\", "\u00e9": "\n\/"})",
        "\"\u00e4 \u20ac \U0001F600 \ud7ff \ue000\"", "[]"})
    check(text, text, 0);
}

TEST_CASE("json repair: a number that is none becomes an empty text") {
  check("[NaN, nan,-nan ,inf,-Infinity]", "[\"\" , \"\" , \"\"  ,\"\" , \"\"      ]", 5);
}

TEST_CASE(
    "json repair: escapes that JSON does not have, and bytes that are not UTF-8, become question marks") {
  check(R"(["a\xb", "\\x", "\é"])", R"(["a?xb", "\\x", "?é"])", 2);
  check("[\"a\xff\xfe\", \"\xc3\", \"\xe2\x82\", \"\xc0\xaf\"]", "[\"a??\", \"?\", \"??\", \"??\"]", 7);
  check("[\"\xed\xa0\x80\xf4\x90\x80\x80\xe0\x80\x80\xf0\x80\x80\x80\"]", "[\"??????????????\"]", 14);
}

}  // namespace
}  // namespace kineto
