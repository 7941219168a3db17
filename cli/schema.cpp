// fusewise schema: the JSON Schema of a file format.

#include "cli/schemas.hpp"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "planner/job/registry.hpp"

namespace cli {
namespace {

/// The names with and without "fusewise." in front are taken alike.
void show_schema(const std::string& asked) {
  constexpr std::string_view kPrefix = "fusewise.";
  const std::string name = asked.rfind(kPrefix, 0) == 0 ? asked.substr(kPrefix.size()) : asked;
  const std::vector<std::string_view> known = planner::names(schemas());
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw core::InputError(fmt::format("NAME: expected one of {}, got '{}'{}", fmt::join(known, ", "),
                                       core::printable(asked), core::suggestion(name, known)));
  print(std::string(planner::entry(schemas(), name).text));
}

}  // namespace

void add_schema(const Command& program) {
  auto name = std::make_shared<std::string>();
  const Command command = program.add_command("schema", "Print the JSON Schema of a file format");
  command.footer("Example: fusewise schema scenario");
  command.add_option("NAME", *name, fmt::format("one of {}", fmt::join(planner::names(schemas()), ", ")))
      .required();
  command.on_run([name] { show_schema(*name); });
}

}  // namespace cli
