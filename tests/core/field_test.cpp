// Field: every value it reads, and every error message verbatim.

#include "core/field.hpp"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace core {
namespace {

using Read = std::function<void(const Field&)>;

struct Refusal {
  std::string text;
  Read read;
  std::string message;
};

Field parse(const std::string& text) { return Field::parse(text, "f.json"); }

void check_all(const std::vector<Refusal>& refusals) {
  for (const Refusal& each : refusals) {
    CAPTURE(each.text);
    CHECK_THROWS_WITH_AS(each.read(parse(each.text)), each.message.c_str(), InputError);
  }
}

void check_unreadable(const std::string& text, const std::string& message) {
  CAPTURE(text.substr(0, 100));
  CHECK_THROWS_WITH_AS(parse(text), message.c_str(), InputError);
}

const Read as_number = [](const Field& field) { field.at("x").number(0, 1e12); };
const Read as_integer = [](const Field& field) { field.at("x").integer(1, 1'000'000'000'000); };
const Read as_boolean = [](const Field& field) { field.at("x").boolean(); };
const Read as_text = [](const Field& field) { field.at("x").text(); };
const Read as_name = [](const Field& field) { field.at("x").name(); };
const Read as_items = [](const Field& field) { field.at("x").items(); };
const Read as_non_empty_items = [](const Field& field) { field.at("x").non_empty_items(); };
const Read as_one_of = [](const Field& field) { field.at("x").one_of({"wfbp", "mg-wfbp", "dear"}); };
const Read as_profile = [](const Field& field) { field.check_format("fusewise.profile"); };
const Read as_link = [](const Field& field) { field.allow_only({"alpha_us", "beta_us_per_byte"}); };

TEST_CASE("field: a value of the wrong type, sign or range is refused with its pointer") {
  check_all({
      {R"({"x": "fast"})", as_number, R"(f.json: /x: expected a number from 0 to 1000000000000, got "fast")"},
      {R"({"x": -1.5})", as_number, "f.json: /x: expected a number from 0 to 1000000000000, got -1.5"},
      {R"({"x": 1e13})", as_number,
       "f.json: /x: expected a number from 0 to 1000000000000, got 10000000000000.0"},
      {R"({"x": null})", as_number, "f.json: /x: expected a number from 0 to 1000000000000, got null"},
      {R"({"x": [1, 2]})", as_number,
       "f.json: /x: expected a number from 0 to 1000000000000, got an array of 2 items"},
      {R"({"x": [1]})", as_number,
       "f.json: /x: expected a number from 0 to 1000000000000, got an array of 1 item"},
      {R"({"x": {"y": 1}})", as_number,
       "f.json: /x: expected a number from 0 to 1000000000000, got an object with 1 key"},
      {R"({"x": 0})", as_integer, "f.json: /x: expected an integer from 1 to 1000000000000, got 0"},
      {R"({"x": 1.5})", as_integer, "f.json: /x: expected an integer from 1 to 1000000000000, got 1.5"},
      {R"({"x": "1"})", as_integer, R"(f.json: /x: expected an integer from 1 to 1000000000000, got "1")"},
      {R"({"x": 1})", as_boolean, "f.json: /x: expected true or false, got 1"},
      {R"({"x": true})", as_text, "f.json: /x: expected a string, got true"},
      {R"({"x": ""})", as_name, R"(f.json: /x: expected a non-empty string, got "")"},
      {R"({"x": 7})", as_name, "f.json: /x: expected a non-empty string, got 7"},
      {R"({"x": {}})", as_items, "f.json: /x: expected an array, got an object with 0 keys"},
      {R"({"x": []})", as_non_empty_items,
       "f.json: /x: expected an array of at least 1 item, got an array of 0 items"},
      {R"({"x": "wfpb"})", as_one_of,
       R"(f.json: /x: expected one of wfbp, mg-wfbp, dear, got "wfpb", did you mean 'wfbp'?)"},
      {R"({"x": "quite else"})", as_one_of,
       R"(f.json: /x: expected one of wfbp, mg-wfbp, dear, got "quite else")"},
      {R"({"x": 3})", as_one_of, "f.json: /x: expected one of wfbp, mg-wfbp, dear, got 3"},
  });
}

TEST_CASE("field: a missing key is named by its own pointer") {
  check_all({{"{}", as_number, "f.json: /x: expected a value, got nothing"},
             {R"({"a": [{"b": {}}]})", [](const Field& field) { field.at("a").items()[0].at("b").at("x"); },
              "f.json: /a/0/b/x: expected a value, got nothing"},
             {R"({"a": 1})", [](const Field& field) { field.at("a").at("x"); },
              "f.json: /a: expected an object, got 1"}});
}

TEST_CASE("field: an unknown key is refused, and the nearest known one suggested") {
  check_all({
      {R"({"alpha_u": 1})", as_link,
       "f.json: /alpha_u: expected a key among alpha_us, beta_us_per_byte, got 'alpha_u', did you mean "
       "'alpha_us'?"},
      {R"({"alpha_us": 1, "bandwidth": 2})", as_link,
       "f.json: /bandwidth: expected a key among alpha_us, beta_us_per_byte, got 'bandwidth'"},
      {R"({"": 2})", as_link, "f.json: /: expected a key among alpha_us, beta_us_per_byte, got ''"},
      {"[]", as_link, "f.json: /: expected an object, got an array of 0 items"},
  });
  CHECK_NOTHROW(as_link(parse(R"({"alpha_us": 1})")));
  CHECK_NOTHROW(as_link(parse("{}")));
}

TEST_CASE("field: the root is called /") {
  check_all({{"3", as_profile, R"(f.json: /: expected an object with "format": "fusewise.profile", got 3)"},
             {"[1]", [](const Field& field) { field.number(0, 1); },
              "f.json: /: expected a number from 0 to 1, got an array of 1 item"}});
  CHECK(parse("{}").pointer() == "/");
  CHECK(parse(R"({"a": 1})").at("a").pointer() == "/a");
}

TEST_CASE("field: format and version are checked") {
  check_all({
      {"{}", as_profile, "f.json: /format: expected fusewise.profile, got nothing"},
      {R"({"traceEvents": []})", as_profile,
       "f.json: /format: expected fusewise.profile, got nothing (it seems to be a trace of the PyTorch "
       "profiler, of which fusewise import makes a profile)"},
      {R"({"model_type": "llama", "hidden_size": 8})", as_profile,
       "f.json: /format: expected fusewise.profile, got nothing (it seems to be the configuration of a "
       "Hugging Face model, see docs/profiling.md, From a Hugging Face model)"},
      {R"({"format": "fusewise.network", "version": 1})", as_profile,
       R"(f.json: /format: expected one of fusewise.profile, got "fusewise.network")"},
      {R"({"format": "fusewise.profile"})", as_profile, "f.json: /version: expected a value, got nothing"},
      {R"({"format": "fusewise.profile", "version": 2})", as_profile,
       "f.json: /version: expected 1, the only version this program reads, got 2"},
      {R"({"format": "fusewise.profile", "version": "1"})", as_profile,
       R"(f.json: /version: expected 1, the only version this program reads, got "1")"},
  });
  CHECK_NOTHROW(as_profile(parse(R"({"format": "fusewise.profile", "version": 1})")));
}

TEST_CASE("field: a key given twice is refused where it stands") {
  check_unreadable(R"({"a": 1, "a": 1})", "f.json: /a: expected a key once, got it twice");
  check_unreadable(R"({"l": [0, {"b": {"c": 1, "d": 2, "c": 3}}]})",
                   "f.json: /l/1/b/c: expected a key once, got it twice");
  check_unreadable(R"({"a/b": {"~": 1, "~": 2}})", "f.json: /a~1b/~0: expected a key once, got it twice");
  CHECK_NOTHROW(parse(R"({"a": {"a": 1}, "b": {"a": 1}})"));
}

TEST_CASE("field: what is not JSON is refused with line and column") {
  check_unreadable("", "f.json:1:1: expected JSON, got the end of the file");
  check_unreadable("{\n  \"a\": 1,\n  b: 2\n}", "f.json:3:3: expected JSON, got 'b'");
  check_unreadable("{\"a\": 1,}", "f.json:1:9: expected JSON, got '}'");
  check_unreadable("{} {}", "f.json:1:4: expected JSON, got '{'");
  check_unreadable("{'a': 1}", "f.json:1:2: expected JSON, got '''");
  check_unreadable("// no\n{}", "f.json:1:1: expected JSON, got '/'");
  check_unreadable("{\"a\": é}", "f.json:1:7: expected JSON, got 'é'");
}

TEST_CASE("field: a truncated file is refused at its end") {
  check_unreadable(R"({"a": [1, 2)", "f.json:1:12: expected JSON, got the end of the file");
  check_unreadable("{\"a\":\n", "f.json:2:1: expected JSON, got the end of the file");
  check_unreadable(R"({"a": "b)", "f.json:1:9: expected JSON, got the end of the file");
}

TEST_CASE("field: NaN and infinity literals are not JSON, and 1e999 is not a number") {
  check_unreadable(R"({"a": NaN})", "f.json:1:7: expected JSON, got 'N'");
  check_unreadable(R"({"a": Infinity})", "f.json:1:7: expected JSON, got 'I'");
  check_unreadable(R"({"a": -Infinity})", "f.json:1:8: expected JSON, got 'I'");
  check_unreadable(R"({"a": nan})", "f.json:1:8: expected JSON, got 'a'");
  check_unreadable(R"({"a": 1e999})", "f.json:1:7: expected a number that fits a double, got 1e999");
  check_unreadable(R"({"a": -1e999})", "f.json:1:7: expected a number that fits a double, got -1e999");
}

TEST_CASE("field: nesting of 100 is read, of 101 and of 100,000 refused") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK_NOTHROW(parse(nested(100)));
  std::string pointer;
  for (int i = 0; i < 100; ++i) pointer += "/0";
  const std::string message = "f.json: " + pointer + ": expected nesting of at most 100, got more";
  check_unreadable(nested(101), message);
  check_unreadable(nested(100'000), message);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  CHECK_THROWS_AS(parse(objects), InputError);
}

TEST_CASE("field: control characters are escaped, in values, keys, file names and stray text") {
  check_all({
      {R"({"x": "a\nb\u0007\u001b[31m"})", as_number,
       R"(f.json: /x: expected a number from 0 to 1000000000000, got "a\nb\u0007\u001b[31m")"},
      {R"({"a\nb\u007f": 1})", as_link,
       R"(f.json: /a\u000ab\u007f: expected a key among alpha_us, beta_us_per_byte, got 'a\u000ab\u007f')"},
  });
  check_unreadable("{\x1b", R"(f.json:1:2: expected JSON, got '\u001b')");
  CHECK_THROWS_WITH_AS(
      Field::load("no\nsuch\x1b.json"),
      R"(no\u000asuch\u001b.json: /: expected a file that can be read, got: No such file or directory)",
      InputError);
}

TEST_CASE("field: bytes that are not UTF-8 are escaped, characters of all lengths are kept") {
  CHECK(one_line("aäß€😀") == "aäß€😀");
  CHECK(one_line("\xff\xfe") == "\\xff\\xfe");
  CHECK(one_line("a\x80z") == "a\\x80z");
  CHECK(one_line("\xc3") == "\\xc3");                    // ä, cut off
  CHECK(one_line("\xe2\x82x") == "\\xe2\\x82x");         // €, cut off
  CHECK(one_line("\xc0\xaf") == "\\xc0\\xaf");           // a slash, longer than it has to be
  CHECK(one_line("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");  // likewise
  CHECK(one_line("\xf0\x80\x80\xaf") == "\\xf0\\x80\\x80\\xaf");
  CHECK(one_line("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(one_line("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  CHECK(one_line("\xc2\x9b\xe2\x80\xa8\xe2\x80\xa9") == "\\u009b\\u2028\\u2029");
  CHECK(one_line(one_line("\xff\n")) == one_line("\xff\n"));
}

TEST_CASE("field: a NUL ends no file, and cuts no path") {
  check_unreadable(std::string("{}\0", 3), "f.json:1:3: expected JSON, got a NUL character");
  check_unreadable(std::string("{}\n \0 {}", 8), "f.json:2:2: expected JSON, got a NUL character");
  check_unreadable(std::string("\0{}", 3), "f.json:1:1: expected JSON, got a NUL character");
  check_unreadable(std::string("{\"a\": \"\0\"}", 10), "f.json:1:8: expected JSON, got a NUL character");
  const Field field = parse(R"({"file": "good.json\u0000bad"})");
  const std::string message =
      R"(f.json: /file: expected a path without a NUL character, got "good.json\u0000bad")";
  CHECK_THROWS_WITH_AS(field.at("file").path(), message.c_str(), InputError);
  CHECK_THROWS_WITH_AS(field.at("file").follow(), message.c_str(), InputError);
}

TEST_CASE("field: a file has at most 4,000,000 values") {
  std::string zeros = "[0";
  for (int i = 0; i < 3'999'998; ++i) zeros += ",0";
  CHECK_NOTHROW(parse(zeros + "]"));
  check_unreadable(zeros + ",0]", "f.json: /: expected at most 4000000 values in the file, got more");
  check_unreadable("{\"a\": " + zeros + "]}",
                   "f.json: /a: expected at most 4000000 values in the file, got more");
}

TEST_CASE("field: pointers are escaped as RFC 6901 says") {
  const Field field = parse(R"({"a/b": {"m~n": {"~1": [[], 5]}}})");
  const Field inner = field.at("a/b").at("m~n").at("~1").items()[1];
  CHECK(inner.pointer() == "/a~1b/m~0n/~01/1");
  CHECK_THROWS_WITH_AS(field.at("a/b").at("/"), "f.json: /a~1b/~1: expected a value, got nothing",
                       InputError);
}

TEST_CASE("field: long values are cut in messages, never inside a character") {
  const std::string long_text(200, 'x');
  const std::string cut = "f.json: /x: expected true or false, got \"" + std::string(59, 'x') + "...";
  CHECK_THROWS_WITH_AS(as_boolean(parse(R"({"x": ")" + long_text + "\"}")), cut.c_str(), InputError);
  std::string umlauts;
  for (int i = 0; i < 50; ++i) umlauts += "ü";  // two bytes each
  CHECK(printable(umlauts) == umlauts.substr(0, 60) + "...");
  CHECK(printable("x" + umlauts) == "x" + umlauts.substr(0, 58) + "...");
  CHECK(printable(std::string(60, 'x')) == std::string(60, 'x'));
}

TEST_CASE("field: a byte order mark is skipped") {
  CHECK(parse("\xef\xbb\xbf{\"x\": 4}").at("x").integer(0, 9) == 4);
}

TEST_CASE("field: huge numbers are no integers, integral floats are") {
  const std::int64_t max = std::numeric_limits<std::int64_t>::max();
  const auto integer = [&](const std::string& text) { return parse(text).integer(0, max); };
  CHECK(integer("1e6") == 1'000'000);
  CHECK(integer("2.50e1") == 25);
  CHECK(integer("-0.0") == 0);
  CHECK(integer("9223372036854775807") == max);
  check_all({
      {R"({"x": 18446744073709551615})", as_integer,
       "f.json: /x: expected an integer from 1 to 1000000000000, got 18446744073709551615"},
      {R"({"x": 1e300})", as_integer, "f.json: /x: expected an integer from 1 to 1000000000000, got 1e+300"},
      {R"({"x": 123456789012345678901234567890})", as_integer,
       "f.json: /x: expected an integer from 1 to 1000000000000, got 1.2345678901234568e+29"},
      {R"({"x": -9223372036854775808})", as_integer,
       "f.json: /x: expected an integer from 1 to 1000000000000, got -9223372036854775808"},
  });
  for (const char* text : {"9223372036854775808", "9223372036854775808.0", "1e19"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(integer(text), InputError);
  }
}

TEST_CASE("field: numbers at the ends of their range are read") {
  CHECK(parse("0").number(0, 1e12) == 0);
  CHECK(parse("1e12").number(0, 1e12) == 1e12);
  CHECK(parse("1000000000000").integer(1, 1'000'000'000'000) == 1'000'000'000'000);
  CHECK(parse("-5").number(-5, 5) == -5);
}

TEST_CASE("field: find, has, items and words") {
  const Field field = parse(R"({"a": "b\nc", "d": [1, true, {"e": 2.5}], "f": null})");
  CHECK(field.has("a"));
  CHECK_FALSE(field.has("b"));
  CHECK_FALSE(field.at("a").has("a"));
  CHECK(field.find("x") == std::nullopt);
  CHECK(field.find("a")->text() == "b\nc");
  CHECK(field.at("d").items().size() == 3);
  CHECK(field.at("d").items()[1].boolean());
  CHECK(field.words() == R"(b\u000ac 1 true 2.5 null)");
  CHECK(parse(R"({"between_nodes": true, "fused": false, "name": "dgc"})").words() ==
        "dgc between-nodes no-fused");
  CHECK(field.is_object());
  CHECK(field.at("d").is_array());
  CHECK(field.at("a").is_text());
  CHECK(field.at("d").items()[0].is_number());
}

TEST_CASE("field: suggestions need to be near, or to begin so") {
  const std::vector<std::string_view> known = {"wfbp", "dear", "sync-easgd"};
  CHECK(suggestion("sync", known) == ", did you mean 'sync-easgd'?");
  CHECK(suggestion("sy", known) == "");
  CHECK(suggestion("wfpb", known) == ", did you mean 'wfbp'?");
  CHECK(suggestion("SYNCEASGD", known) == ", did you mean 'sync-easgd'?");
  CHECK(suggestion("sync_easgd", known) == ", did you mean 'sync-easgd'?");
  CHECK(suggestion("d", known) == "");
  CHECK(suggestion("", known) == "");
  CHECK(suggestion(std::string(10'000, 'w'), known) == "");
}

// ---- files

TEST_CASE("field: a file is followed from the folder of the one that names it") {
  const support::TemporaryFolder folder;
  folder.put("sub/b.json", R"({"next": "../c.json"})");
  folder.put("c.json", R"({"v": 7})");
  const Field a = Field::load(folder.put("a.json", R"({"inside": {"v": 1}, "next": "sub/b.json"})"));
  CHECK(a.at("inside").follow().at("v").integer(0, 9) == 1);
  const Field c = a.at("next").follow().at("next").follow();
  CHECK(c.at("v").integer(0, 9) == 7);
  CHECK(c.source() == (folder / "c.json").string());
  CHECK(c.pointer() == "/");
}

TEST_CASE("field: a file that cannot be read is the fault of the file that names it") {
  const support::TemporaryFolder folder;
  const std::string name =
      folder.put("s.json", R"({"profile": "none.json", "network": ".", "other": 3})").string();
  const Field scenario = Field::load(name);
  const auto refused = [&](const char* key, const std::string& message) {
    CHECK_THROWS_WITH_AS(scenario.at(key).follow(), (name + message).c_str(), InputError);
  };
  refused(
      "profile",
      R"(: /profile: expected the path of a file that can be read, got "none.json": No such file or directory)");
  refused("network", R"(: /network: expected the path of a file that can be read, got ".": Is a directory)");
  refused("other", ": /other: expected an object or the path of a file, got 3");
}

TEST_CASE("field: a fault inside a followed file is that file's") {
  const support::TemporaryFolder folder;
  folder.put("p.json", "{\"v\": -1,\n\"w\": {\"u\": 1}}");
  folder.put("broken.json", "{\n");
  const Field scenario =
      Field::load(folder.put("s.json", R"({"profile": "p.json", "network": "broken.json"})"));
  const std::string p = (folder / "p.json").string() + ": /v: expected a number from 0 to 1, got -1";
  CHECK_THROWS_WITH_AS(scenario.at("profile").follow().at("v").number(0, 1), p.c_str(), InputError);
  const std::string broken =
      (folder / "broken.json").string() + ":2:1: expected JSON, got the end of the file";
  CHECK_THROWS_WITH_AS(scenario.at("network").follow(), broken.c_str(), InputError);
}

TEST_CASE("field: values outlive the field they were found in") {
  const auto inner = [] { return parse(R"({"a": {"b": [1, 2, 3]}})").at("a").at("b"); }();
  CHECK(inner.items()[2].integer(0, 9) == 3);
}

}  // namespace
}  // namespace core
