// Which steps of a trace are used, and what their iterations take.

#include "profiler/traces/kineto/used_steps.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "profiler/traces/kineto/import.hpp"
#include "tests/profiler/traces/kineto/marked_job.hpp"
#include "tests/support/temporary_folder.hpp"

namespace kineto {
namespace {

Imported import_job(const std::vector<MarkedStep>& steps) {
  const support::TemporaryFolder folder;
  return import_trace(folder.put("t.json", MarkedJob(steps).text()), {.batch_size = 1});
}

bool holds(const std::vector<std::string>& lines, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

std::size_t layers_of(const Imported& imported) {
  return static_cast<std::size_t>(
      std::count_if(imported.profile.layers.begin(), imported.profile.layers.end(),
                    [](const core::ProfileLayer& layer) { return layer.kind == "linear"; }));
}

TEST_CASE("used steps: where all differ, the one that is nearest to the median of all is used") {
  // 2300, 900, 1100, 1300 and 1500 us
  const Imported imported =
      import_job({{.layers = 10}, {.layers = 3}, {.layers = 4}, {.layers = 5}, {.layers = 6}});
  CHECK(imported.iteration_us == doctest::Approx(1300));
  CHECK(layers_of(imported) == 5);
  CHECK(holds(imported.warnings,
              "steps differ from one another: the profile is made of 1 of 5, which take 1.300 ms, and scaled "
              "to the median of all, 1.300 ms"));
}

TEST_CASE("used steps: of as many steps of two kinds the times are scaled to the median of all") {
  // 1500 and 700 us: 6 layers of 100 us take 1100 / 1500 of that
  const Imported imported = import_job({{.layers = 6}, {.layers = 2}, {.layers = 6}, {.layers = 2}});
  CHECK(imported.iteration_us == doctest::Approx(1100));
  REQUIRE(layers_of(imported) == 6);
  CHECK(imported.profile.layers.back().forward_device_us == doctest::Approx(100 * 1100.0 / 1500));
  CHECK(imported.profile.iteration->optimizer_us == doctest::Approx(100 * 1100.0 / 1500));
  CHECK(holds(imported.warnings, "the profile is made of 2 of 4, which take 1.500 ms"));
}

TEST_CASE("used steps: most of them are alike, and one is far off, without a warning") {
  const Imported imported = import_job({{.layers = 4}, {.layers = 4}, {.layers = 9}, {.layers = 4}});
  CHECK(imported.iteration_us == doctest::Approx(1100));
  CHECK(layers_of(imported) == 4);
  CHECK_FALSE(holds(imported.warnings, "steps differ"));
}

TEST_CASE("used steps: the last step counts if its work is done when it ends") {
  const MarkedStep slow = {.layer_us = 200};  // 1100 us, the others 700 us
  CHECK(import_job({slow, {}, {}}).iteration_us == doctest::Approx(700));
  const MarkedStep ahead = {.tail_us = -50};  // 550 us
  CHECK(import_job({slow, ahead, ahead}).iteration_us == doctest::Approx((1100 + 550) / 2.0));
}

TEST_CASE("used steps: where lengths vary, the layers are those of the steps whose lengths are known") {
  // 1100, 700 and 1100 us; nothing says how long the last step takes, which is the second short one
  const MarkedStep slow = {.layer_us = 200};
  const Imported imported = import_job({slow, {}, slow, {.tail_us = -50}});
  CHECK(imported.iteration_us == doctest::Approx(1100));
  CHECK(imported.profile.layers.back().forward_us == doctest::Approx(200));
  CHECK(holds(imported.account,
              "4 of them alike; 3 of these are used, as the length of the others is not known"));
  CHECK(holds(import_job({{}, {}, {.tail_us = -50}}).account, "3 of them alike and used"));
}

TEST_CASE("used steps: a step lasts until the next one only if no marker is missing between them") {
  const MarkedStep unmarked = {.is_marked = false};
  const Imported imported = import_job({unmarked, {}, unmarked, {}, {}});
  CHECK(imported.iteration_us == doctest::Approx(700));
  CHECK(holds(imported.account, "3 steps, 3 with layers, 3 of them alike and used"));
}

TEST_CASE("used steps: lengths that repeat after several steps show a loop of several updates") {
  CHECK(period_of({100, 60, 101, 61, 100}) == 2);
  CHECK(period_of({100, 60, 60, 101, 61, 60}) == 3);
  CHECK(period_of({0, 60, 100, 61, 101, 0}) == 2);
  CHECK(period_of({100, 60}) == 1);           // nothing repeats
  CHECK(period_of({100, 95, 100, 95}) == 1);  // hardly anything differs
  CHECK(period_of({100, 60, 130, 80, 100}) == 1);
  CHECK(period_of({}) == 1);
}

TEST_CASE("used steps: updates without markers that take turns, or differ, are warned of") {
  const MarkedStep small = {.is_marked = false};
  const MarkedStep slow = {.layer_us = 200, .is_marked = false};
  const MarkedStep large = {.layers = 5, .is_marked = false};
  CHECK(holds(import_job({small, slow, small, slow, small, slow}).warnings,
              "one update is taken for an iteration, but what they take repeats after 2 of them"));
  CHECK(holds(import_job({small, small, large, small, small}).warnings,
              "one update is taken for an iteration, but updates differ in their gradients"));
  const Imported joined = import_job({small, large, small, large, small, large});
  CHECK(holds(joined.warnings, "2 updates are taken for an iteration"));
  CHECK(joined.iteration_us == doctest::Approx(small.length_us() + large.length_us()));
  CHECK_FALSE(holds(import_job({small, small, small, small}).warnings, "without step markers"));
}

}  // namespace
}  // namespace kineto
