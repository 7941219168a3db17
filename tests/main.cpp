// The main function of the test programs. A test whose needs are not met is skipped, and a line on stderr
// that begins with "SKIPPED:" says why. A run of which every test was skipped exits with kAllSkipped, which
// ctest recognizes; with --fail-if-skipped a skipped test is a failure. A run that selects no test fails,
// too.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/needs.hpp"

namespace {

struct Skipped {
  std::string test;
  std::string why;
};

constexpr int kAllSkipped = 77;

std::vector<Skipped> skipped;
std::size_t selected = 0;

std::string missing_for(const doctest::TestCaseData& test) {
  for (const support::Need& need : support::needs_of_tests()) {
    if (need.line != test.m_line || test.m_file != need.file.c_str()) continue;
    if (std::string why = need.missing(); !why.empty()) return why;
  }
  return {};
}

/// Takes the list of selected tests in the place of the reporter that prints it.
struct Selection : doctest::ConsoleReporter {
  using ConsoleReporter::ConsoleReporter;
  void report_query(const doctest::QueryData& query) override {
    selected = query.num_data;
    for (const doctest::TestCaseData* test : std::span(query.data, query.num_data)) {
      const std::string why = missing_for(*test);
      if (why.empty()) continue;
      skipped.push_back({.test = test->m_name, .why = why});
      const_cast<doctest::TestCaseData*>(test)->m_skip = true;  // the registered test itself is not const
    }
  }
};

REGISTER_REPORTER("selection", 0, Selection);

/// Marks the selected tests that cannot run here.
void find_skipped(std::span<char*> arguments) {
  std::vector<const char*> words(arguments.begin(), arguments.end());
  words.insert(words.end(), {"--list-test-cases", "--reporters=selection"});
  doctest::Context(static_cast<int>(words.size()), words.data()).run();
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  doctest::Context context(argc, argv);
  if (context.shouldExit()) return context.run();  // the tests are only listed
  find_skipped(arguments);
  if (selected == 0) {
    (void)std::fprintf(stderr, "no test has this name\n");
    return 1;
  }
  const int code = context.run();
  for (const Skipped& each : skipped)
    (void)std::fprintf(stderr, "SKIPPED: %s: %s\n", each.test.c_str(), each.why.c_str());
  const bool is_failure =
      std::ranges::find(arguments, std::string_view("--fail-if-skipped")) != arguments.end() &&
      !skipped.empty();
  if (is_failure) return 1;
  return code == 0 && skipped.size() == selected ? kAllSkipped : code;
}
