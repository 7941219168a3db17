// Any bytes are a profile, network, file of compressors, plan, model or scenario, or are refused with
// InputError; what loads and can be written is written and read back the same.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/errors.hpp"
#include "models/model.hpp"
#include "planner/plan_file.hpp"
#include "scenarios/scenario.hpp"
#include "traces/compressor_costs.hpp"

namespace {

using models::Field;

/// Reading what was written must give the same text again.
template <typename Read, typename Write>
void round_trip(const Field& field, Read read, Write write) {
  const std::string text = write(read(field));
  if (write(read(Field::parse(text, "again"))) != text) std::abort();
}

void load(const Field& field) {
  const std::string format = field.at("format").text();
  if (format == "fusewise.profile") return round_trip(field, traces::read_profile, traces::profile_text);
  if (format == "fusewise.network") return round_trip(field, traces::read_network, traces::network_text);
  if (format == "fusewise.compressors")
    return round_trip(field, traces::read_compressor_costs, traces::compressor_costs_text);
  if (format == "fusewise.plan") return round_trip(field, planner::read_plan_file, planner::plan_text);
  if (format == "fusewise.model") return (void)models::read_model(field);
  (void)scenarios::read_scenario(field);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    load(Field::parse(text, "scenarios/fuzz"));
  } catch (const models::InputError&) {
  }
  return 0;
}
