// Requirements of a test on the machine or the build. If one is missing, the test is counted as skipped, and
// the test program prints the reason.

#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/sanitized.hpp"

namespace support {

/// Returns what is missing; empty if nothing is. Called only if the test would run.
using Missing = std::string (*)();

/// A test and its requirement. The line identifies the test: a file registers one test per line.
struct Need {
  std::string file;
  unsigned line = 0;
  Missing missing = nullptr;
};

/// The needs of every test of the program.
inline std::vector<Need>& needs_of_tests() {
  static std::vector<Need> all;
  return all;
}

/// A decorator: TEST_CASE("..." * support::needs(support::no_namespaces)).
struct NeedsDecorator {
  Missing missing;
  void fill(doctest::detail::TestCase& test) const {
    needs_of_tests().push_back({.file = test.m_file.c_str(), .line = test.m_line, .missing = missing});
  }
};

inline NeedsDecorator needs(Missing missing) { return {.missing = missing}; }

/// A need of tests that take seconds without sanitizers, or whose limit is one of memory or time.
inline std::string no_sanitizer() { return kSanitized ? "sanitizers take too long, or too much memory" : ""; }

}  // namespace support
