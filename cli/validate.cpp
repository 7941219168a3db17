// fusewise validate: what is published or measured, beside what we say.

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "models/files.hpp"
#include "validate/paper.hpp"
#include "validate/paper_text.hpp"
#include "validate/reproduce.hpp"

namespace cli {
namespace {

struct Options {
  std::string what;
  bool json = false;
  std::string output;
};

void reproduce_papers(const Options& options) {
  std::vector<std::filesystem::path> files = {options.what};
  if (std::filesystem::is_directory(options.what)) files = validate::paper_files(options.what);
  std::vector<validate::PaperResult> results;
  for (const auto& file : files)
    results.push_back(validate::reproduce(validate::load_paper(file)));
  if (!options.output.empty()) models::write_file(options.output, validate::papers_page(results));
  print(options.json ? validate::papers_json(results) : validate::papers_table(results));
  const std::vector<std::string> faults = validate::faults(results);
  if (!faults.empty()) throw OutOfTolerance(fmt::format("{}", fmt::join(faults, "; ")));
}

}  // namespace

void add_validate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("validate", "Hold what papers publish against what this program says");
  command->footer("Example: fusewise validate validate/papers\nExit 3: something is outside its tolerance.");
  command->add_option("PAPERS", options->what, "a fusewise.paper file, or a folder of them")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->add_option("-o,--output", options->output, "write a page (Markdown) to this file as well")
      ->check(file_name());
  command->callback([options] { reproduce_papers(*options); });
}

}  // namespace cli
