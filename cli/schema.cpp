// fusewise schema: prints the JSON Schema of a file format.

#include "cli/schemas.hpp"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/schema_text.hpp"
#include "core/field.hpp"
#include "planner/job/registry.hpp"

namespace cli {
namespace {

/// The prefix "fusewise." of a name may be left out.
void show_schema(const std::string& requested) {
  constexpr std::string_view kPrefix = "fusewise.";
  const std::string name = requested.starts_with(kPrefix) ? requested.substr(kPrefix.size()) : requested;
  print(schema_text(known_name("NAME", name, planner::names(schemas()))));
}

}  // namespace

void add_schema(const Command& program) {
  auto name = std::make_shared<std::string>();
  const Command command = program.add_command("schema", "Print the JSON Schema of a file format");
  command.footer("Example: fusewise schema scenario");
  command
      .add_option("NAME", *name,
                  fmt::format("name of the format: one of {}", fmt::join(planner::names(schemas()), ", ")))
      .required();
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "print JSON (always)");
  command.on_run([name, json] { show_schema(*name); });  // keeps what the flag is read into
}

}  // namespace cli
