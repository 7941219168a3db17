// Any bytes are a profile, network, file of compressors, plan, model, scenario, paper, set-up or suite, or
// are refused with InputError; what loads and can be written is written and read back the same.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/compressor_costs.hpp"
#include "core/model/model.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/scenarios/scenario.hpp"
#include "tests/fuzz/take_or_refuse.hpp"
#include "validate/measurements/measurements.hpp"
#include "validate/netlab/registry.hpp"
#include "validate/paper/read_paper.hpp"
#include "validate/suite/suite.hpp"

namespace {

using core::Field;

/// Reading what was written must give the same text again.
template <typename Read, typename Write>
void round_trip(const Field& field, Read read, Write write) {
  const std::string text = write(read(field));
  if (write(read(Field::parse(text, "again"))) != text) std::abort();
}

void load(const Field& field) {
  const std::string format = field.at("format").text();
  if (format == "fusewise.profile")
    return round_trip(field, core::read_profile,
                      [](const core::Profile& profile) { return core::profile_text(profile); });
  if (format == "fusewise.network") return round_trip(field, core::read_network, core::network_text);
  if (format == "fusewise.compressors")
    return round_trip(field, core::read_compressor_costs, core::compressor_costs_text);
  if (format == "fusewise.plan") return round_trip(field, planner::read_plan_file, planner::plan_text);
  if (format == "fusewise.setup") return (void)validate::read_setup(field);
  if (format == "fusewise.model") return (void)core::read_model(field);
  if (format == "fusewise.suite") return (void)suite::read_suite(field);
  if (format == "fusewise.netlab") return round_trip(field, netlab::read_lab, netlab::lab_text);
  (void)scenarios::read_scenario(field);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::take_or_refuse(data, size, [](std::string_view text) {
    const Field field = Field::parse(std::string(text), "scenarios/fuzz");
    if (field.is_object() && field.has("figures"))
      (void)validate::read_paper(std::string(text), "validate/papers/fuzz");
    else
      load(field);
  });
}
