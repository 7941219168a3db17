#include "core/text_table.hpp"

#include <doctest/doctest.h>

namespace {

using Rows = std::vector<std::vector<std::string>>;

TEST_CASE("text table: columns of words are aligned to the left, others to the right") {
  CHECK(core::aligned({{"name", "us", "what"}, {"conv1", "12.5", "first"}, {"fc", "3", ""}}, {0, 2}) ==
        "name     us  what\n"
        "conv1  12.5  first\n"
        "fc        3\n");
}

TEST_CASE("text table: a table that fits the width is the table without a width") {
  const Rows rows = {{"name", "first us"}, {"conv1", "12.5"}};
  const std::string whole = core::aligned(rows, {0});
  CHECK(core::aligned(rows, {0}, 15) == whole);
  CHECK(core::aligned(rows, {0}, 14) != whole);
}

TEST_CASE("text table: titles and words continue in the lines below, numbers and long words stay whole") {
  const Rows rows = {{"where", "first at us", "error"},
                     {"table 2 of the paper", "1234.5", "12.3 %"},
                     {"  Squeezenet_1_1/conv10", "7", "0.1 %"}};
  CHECK(core::aligned(rows, {0}, 41) ==
        "where                    first at   error\n"
        "                               us\n"
        "table 2 of the paper       1234.5  12.3 %\n"
        "  Squeezenet_1_1/conv10         7   0.1 %\n");
  CHECK(core::aligned(rows, {0}, 1) ==
        "where                     first\n"
        "                          at us\n"
        "table 2 of the paper     1234.5\n"
        "  Squeezenet_1_1/conv10       7\n"
        "\n"
        "where                     error\n"
        "table 2 of the paper     12.3 %\n"
        "  Squeezenet_1_1/conv10   0.1 %\n");
}

TEST_CASE("text table: columns without room follow in tables that begin with the first column") {
  const Rows rows = {{"group", "ready", "sent", "ended"}, {"1", "10.000", "20.000", "30.000"}};
  CHECK(core::aligned(rows, {}, 21) ==
        "group   ready    sent\n"
        "    1  10.000  20.000\n"
        "\n"
        "group   ended\n"
        "    1  30.000\n");
  CHECK(core::aligned(rows, {}, 29) == core::aligned(rows, {}));
  CHECK(core::aligned({{"a title that is alone"}}, {0}, 8) == "a title\n  that\n  is\n  alone\n");
}

}  // namespace
