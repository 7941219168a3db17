#include "planner/report/knee.hpp"

#include <algorithm>

namespace report {
namespace {

struct Point {
  std::int64_t workers = 1;
  double speedup = 1;
};

Knee knee_of(const std::string& schedule, std::vector<Point> points) {
  std::ranges::stable_sort(points, {}, &Point::workers);
  Knee out = {.schedule = schedule};
  Point last;
  for (const Point& point : points) {
    const auto added = static_cast<double>(point.workers - last.workers);
    if (added > 0 && point.speedup - last.speedup < kWorthwhile * added) {
      out.is_passed = true;
      return out;
    }
    out.workers = point.workers;
    last = point;
  }
  return out;
}

}  // namespace

std::vector<Knee> knees(const scenarios::Results& results) {
  std::vector<std::string> names;
  std::vector<std::vector<Point>> curves;
  std::size_t nth = 0;
  for (std::size_t i = 0; i < results.entries.size(); ++i) {
    const scenarios::Entry& entry = results.entries[i];
    const bool is_next = i > 0 && entry.metrics.workers != results.entries[i - 1].metrics.workers;
    nth = i == 0 || is_next ? 0 : nth + 1;
    if (nth == curves.size()) {
      curves.emplace_back();
      names.push_back(entry.schedule);
    }
    curves[nth].push_back({entry.metrics.workers, entry.metrics.speedup});
  }
  std::vector<Knee> out;
  for (std::size_t i = 0; i < curves.size(); ++i) out.push_back(knee_of(names[i], curves[i]));
  return out;
}

}  // namespace report
