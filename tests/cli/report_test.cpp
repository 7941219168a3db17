// fusewise report: the files that it reads and those that it refuses.

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;

TEST_CASE("report: an execution trace, packed or not, is refused with the command that reads it") {
  const support::TemporaryFolder folder;
  const std::string packed = (support::source_dir() / "tests/data/ranks/resnet-2gpu-et.json.gz").string();
  const std::string plain = folder / "et.json";
  REQUIRE(std::system(("gzip -dc '" + packed + "' > '" + plain + "'").c_str()) == 0);
  for (const std::string& file : {packed, plain}) {
    const Outcome outcome = run_program({"report", file, "-o", folder / "r.html"});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == file +
                             ": /: expected a trace of the PyTorch profiler, got a PyTorch execution trace, "
                             "which holds no times (fusewise import " +
                             file + " prints its buckets)\n");
    CHECK(run_program({"import", file}).exit_code == 0);
  }
}

TEST_CASE("report: results that are packed with gzip give the page of the plain file") {
  const support::TemporaryFolder folder;
  const std::string plain =
      folder.put("results.json", run_program({"simulate", "googlenet-k80", "--json"}).out).string();
  REQUIRE(std::system(("gzip -k '" + plain + "'").c_str()) == 0);
  CHECK(run_program({"report", plain, "-o", folder / "plain.html"}).exit_code == 0);
  CHECK(run_program({"report", plain + ".gz", "-o", folder / "packed.html"}).exit_code == 0);
  CHECK(core::read_file(folder / "packed.html") == core::read_file(folder / "plain.html"));
}

}  // namespace
