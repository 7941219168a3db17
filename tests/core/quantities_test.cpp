#include "core/quantities.hpp"

#include <doctest/doctest.h>

namespace {

using Sizes = std::vector<std::int64_t>;

TEST_CASE("quantities: rates, delays and sizes, in either case") {
  CHECK(core::parse_rate("1gbit") == 1e9);
  CHECK(core::parse_rate("2.5Gbit") == 2.5e9);
  CHECK(core::parse_rate("800mbit") == 800e6);
  CHECK(core::parse_rate("1e9bit") == 1e9);
  CHECK(core::parse_delay_us("100us") == 100);
  CHECK(core::parse_delay_us("1.5ms") == 1500);
  CHECK(core::parse_delay_us("0s") == 0);
  CHECK(core::parse_bytes("4096") == 4096);
  CHECK(core::parse_bytes("64KiB") == 65536);
  CHECK(core::parse_bytes("64kb") == 64000);
  CHECK(core::parse_bytes("1.5MiB") == 1572864);
  CHECK(core::bytes_text(65536) == "64 KiB");
  CHECK(core::bytes_text(1000) == "1000 B");
  CHECK(core::bytes_text(0) == "0 B");
}

TEST_CASE("quantities: what is none is none") {
  for (const char* wrong :
       {"", "gbit", "1", "1 gbit", "0gbit", "-1gbit", "nan gbit", "infgbit", "1gb", "1e99gbit"}) {
    CAPTURE(wrong);
    CHECK_FALSE(core::parse_rate(wrong));
  }
  for (const char* wrong : {"", "1", "us", "-1us", "nanus", "1min"}) {
    CAPTURE(wrong);
    CHECK_FALSE(core::parse_delay_us(wrong));
  }
  for (const char* wrong : {"", "KiB", "1.5", "0.1KiB", "-4", "1TiB", "1e300", "4 KiB"}) {
    CAPTURE(wrong);
    CHECK_FALSE(core::parse_bytes(wrong));
  }
}

TEST_CASE("quantities: long lists of numbers are shortened") {
  CHECK(core::list_text(Sizes{}).empty());
  CHECK(core::list_text(Sizes{2, 4, 8}) == "2, 4, 8");
  Sizes many;
  for (std::int64_t number = 1; number <= 12; ++number) many.push_back(number);
  CHECK(core::list_text(many) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12");
  many.push_back(64);
  CHECK(core::list_text(many) == "1, 2, 3, ..., 64 (13 numbers)");
}

TEST_CASE("quantities: sizes are doubled up to the last, sorted, each once") {
  CHECK(core::parse_sizes("1KiB..4KiB") == Sizes{1024, 2048, 4096});
  CHECK(core::parse_sizes("1KiB..5KiB") == Sizes{1024, 2048, 4096});
  CHECK(core::parse_sizes("8KiB,1KB,1KiB..2KiB,2048") == Sizes{1000, 1024, 2048, 8192});
  for (const char* wrong :
       {"", ",", "1KiB,", "4KiB..1KiB", "0..1KiB", "0", "1KiB..", "..1KiB", "1KiB..2KiB..4KiB"}) {
    CAPTURE(wrong);
    CHECK_FALSE(core::parse_sizes(wrong));
  }
}

}  // namespace
