// What a test needs of the machine or of the build. Without it the test is counted as skipped, and the test
// program says why.

#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace support {

/// Says in words what is missing; empty where nothing is. It is asked only when the test was to run.
using Missing = std::string (*)();

/// A test and what it needs. The line tells tests apart: a file registers one test on a line.
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

}  // namespace support
