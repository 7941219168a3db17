// fusewise: parses the command line, runs one command, and turns an error into one line and an exit code.

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>

#include "cli/commands.hpp"
#include "cli/manual.hpp"
#include "cli/output.hpp"
#include "core/errors.hpp"
#include "core/file_guard.hpp"
#include "core/files.hpp"

namespace {

constexpr int kSuccess = 0;
constexpr int kEnvironmentFailed = 1;
constexpr int kWrongInput = 2;
constexpr int kOutOfTolerance = 3;

/// Printed when the program is called without arguments: the first commands to try.
constexpr const char* kStart =
    "fusewise simulates and plans data-parallel training. To begin:\n\n"
    "  fusewise simulate googlenet-k80                how long iterations take, under every schedule\n"
    "  fusewise report resnet50-v100 -o report.html   the same and more, to look at in a browser\n"
    "  fusewise show scenarios                        what comes with the program\n"
    "  fusewise init                                  describe a job of your own\n"
    "  fusewise doctor                                what this machine can do\n"
    "  fusewise --help                                all commands\n";

/// A new command needs a row.
constexpr cli::DocumentationPage kPages[] = {
    {"",
     "docs/index.md, docs/commands.md, docs/tutorial.md, docs/faq.md, docs/glossary.md, docs/errors.md, "
     "docs/accuracy.md, docs/performance.md, docs/method.md, docs/architecture.md\n"
     "(docs is a folder of the source tree, and of share/fusewise of an installation)"},
    {"simulate", "docs/simulating.md, docs/schedules.md, docs/clusters.md, docs/sharded.md"},
    {"sweep", "docs/sweeps.md"},
    {"plan", "docs/planning.md, docs/frameworks.md, docs/sharded.md"},
    {"report", "docs/report.md"},
    {"validate", "docs/validation.md, docs/papers.md"},
    {"calibrate", "docs/calibration.md"},
    {"init", "docs/installing.md, docs/tutorial.md"},
    {"doctor", "docs/installing.md"},
    {"torch", "docs/pytorch.md"},
    {"show", "docs/commands.md, docs/networks.md"},
    {"import", "docs/profiling.md, docs/traces.md, docs/ranks.md"},
    {"compare", "docs/ranks.md"},
    {"fit", "docs/measuring.md"},
    {"estimate", "docs/profiling.md"},
    {"measure", "docs/measuring.md, docs/compression.md"},
    {"netlab", "docs/measuring.md"},
    {"profile", "docs/profiling.md"},
    {"schema", "docs/file-formats.md"}};

int fail(int code, std::string_view message) {
  cli::print_error(message);
  return code;
}

/// A hidden command that the build calls: it writes manual pages and completions.
void add_manual(cli::Program& program) {
  auto folder = std::make_shared<std::string>();
  const cli::Command command = program.command().add_command("manual", "Write manual pages and completions");
  command.hide();
  command.add_option("FOLDER", *folder, "folder share of an installation").required();
  command.on_run([folder, &program] {
    for (const cli::ManualFile& file : cli::manual(program.text(), FUSEWISE_VERSION)) {
      const std::filesystem::path path = std::filesystem::path(*folder) / file.path;
      std::filesystem::create_directories(path.parent_path());
      core::write_file(path, file.text);
    }
  });
}

int run(cli::Program& program, int argc, char** argv) {
  try {
    cli::print(program.run(argc, argv));
    return kSuccess;
  } catch (const core::InputError& error) {
    return fail(kWrongInput, error.what());
  } catch (const cli::OutOfTolerance& error) {
    return fail(kOutOfTolerance, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kEnvironmentFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kEnvironmentFailed, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const core::FileGuard guard;
  if (const char* const secret = std::getenv("FUSEWISE_SECRET_FILE")) core::add_input(secret);
  cli::Program program(
      "fusewise",
      "Which gradients should travel together, and how does training scale? Simulates and plans\n"
      "data-parallel training from measured layer times and a description of the network.",
      "fusewise " FUSEWISE_VERSION, kStart);
  // --help lists the commands in this order.
  for (const auto& add :
       {cli::add_simulate, cli::add_sweep, cli::add_plan, cli::add_report, cli::add_validate,
        cli::add_calibrate, cli::add_init, cli::add_doctor, cli::add_torch, cli::add_show, cli::add_import,
        cli::add_compare, cli::add_fit, cli::add_estimate, cli::add_measure, cli::add_netlab,
        cli::add_profile, cli::add_schema})
    add(program.command());
  program.name_pages(kPages);
  add_manual(program);
  return run(program, argc, argv);
}
