#include "planner/cost/code_cost.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/limits.hpp"
#include "core/network.hpp"

namespace planner {

using core::Field;

double CodeCost::us(double bytes) const {
  return curve ? curve->us(bytes) : std::max(floor_us, startup_us + bytes * us_per_byte);
}

double CodeCost::max_us(double bytes) const { return curve ? curve->max_us(bytes) : us(bytes); }

bool CodeCost::operator==(const CodeCost& other) const {
  const bool same_curve = curve == other.curve || (curve && other.curve && *curve == *other.curve);
  return same_curve && startup_us == other.startup_us && us_per_byte == other.us_per_byte &&
         floor_us == other.floor_us;
}

CodeCost sped_up(const CodeCost& cost, double times) {
  CodeCost out = {.startup_us = cost.startup_us / times,
                  .us_per_byte = cost.us_per_byte / times,
                  .floor_us = cost.floor_us / times};
  if (!cost.curve) return out;
  std::vector<std::pair<double, double>> points = cost.curve->points();
  for (auto& [bytes, us] : points) us /= times;
  out.curve = std::make_shared<const core::CostCurve>(core::CostCurve::through(points));
  return out;
}

CodeCost read_code_cost(const Field& field) {
  if (const auto curve = field.find("curve")) {
    field.allow_only({"curve"});
    return {.curve = std::make_shared<const core::CostCurve>(core::read_curve(*curve))};
  }
  field.allow_only({"startup_us", "us_per_byte", "floor_us"});
  const auto number = [&](std::string_view key) {
    const std::optional<Field> found = field.find(key);
    return found ? found->number(0, core::kMaxTimeUs) : 0;
  };
  return {.startup_us = number("startup_us"),
          .us_per_byte = number("us_per_byte"),
          .floor_us = number("floor_us")};
}

nlohmann::ordered_json code_cost_json(const CodeCost& cost) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (cost.curve) out["curve"] = cost.curve->points();
  if (cost.startup_us > 0) out["startup_us"] = cost.startup_us;
  if (cost.us_per_byte > 0) out["us_per_byte"] = cost.us_per_byte;
  if (cost.floor_us > 0) out["floor_us"] = cost.floor_us;
  return out;
}

}  // namespace planner
