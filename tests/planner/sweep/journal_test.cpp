// Journals: a resumed sweep continues from a journal, and accepts only complete lines of the same sweep.

#include "planner/sweep/journal.hpp"

#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace sweep {
namespace {

Identity identity() { return {.inputs = {{"scenario", "1"}, {"profile", "2"}}, .points = 10}; }

Finished finished(std::size_t point) {
  return {.point = point,
          .record = {.row = "row " + std::to_string(point) + ",\"a\nb\"", .warnings = {"w\t", "é"}}};
}

/// A journal with the header and the lines of points 3, 1 and 2.
std::string three_lines() {
  return journal_header(identity()) + journal_line(identity(), 1, finished(3)) +
         journal_line(identity(), 2, finished(1)) + journal_line(identity(), 3, finished(2));
}

TEST_CASE("journal: what was written is read back, in its order") {
  const Recovered got = recover(three_lines(), identity(), "j");
  REQUIRE(got.finished.size() == 3);
  CHECK(got.finished[0] == finished(3));
  CHECK(got.finished[1] == finished(1));
  CHECK(got.finished[2] == finished(2));
  CHECK(got.bytes == three_lines().size());
}

TEST_CASE("journal: cut anywhere, it keeps the whole lines before the cut") {
  const std::string whole = three_lines();
  std::size_t lines = 0;
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    CAPTURE(cut);
    if (cut > 0 && whole[cut - 1] == '\n') ++lines;
    const Recovered got = recover(whole.substr(0, cut), identity(), "j");
    CHECK(got.finished.size() == (lines > 0 ? lines - 1 : 0));
    CHECK(got.bytes == (lines > 0 ? whole.rfind('\n', cut > 0 ? cut - 1 : 0) + 1 : 0));
  }
}

TEST_CASE("journal: a byte changed in any line ends it before that line") {
  const std::string whole = three_lines();
  const std::size_t first = journal_header(identity()).size();
  const std::size_t second = first + journal_line(identity(), 1, finished(3)).size();
  const std::size_t third = second + journal_line(identity(), 2, finished(1)).size();
  for (std::size_t at = second; at + 1 < third; ++at) {
    for (const char c : {'0', 'x', ' ', '\n', '\0'}) {
      if (whole[at] == c) continue;
      std::string changed = whole;
      changed[at] = c;
      CAPTURE(changed);
      const Recovered got = recover(changed, identity(), "j");
      CHECK(got.finished.size() == 1);
      CHECK(got.bytes == second);
    }
  }
}

TEST_CASE("journal: lines out of turn, of a point there already or beyond the last are not taken") {
  const std::string start = journal_header(identity()) + journal_line(identity(), 1, finished(3));
  CHECK(recover(start + journal_line(identity(), 3, finished(1)), identity(), "j").finished.size() == 1);
  CHECK(recover(start + journal_line(identity(), 2, finished(3)), identity(), "j").finished.size() == 1);
  CHECK(recover(start + journal_line(identity(), 2, finished(10)), identity(), "j").finished.size() == 1);
  CHECK(recover(start + journal_line(identity(), 2, finished(9)), identity(), "j").finished.size() == 2);
}

TEST_CASE("journal: one of another sweep is refused, saying what differs") {
  const auto refusal = [](const Identity& other, const std::string& text) -> std::string {
    try {
      (void)recover(text, other, "j");
      return "";
    } catch (const core::InputError& error) {
      return error.what();
    }
  };
  const std::string start =
      "j: /: expected the journal of this sweep (or delete it to begin again), got one made with another ";
  Identity other = identity();
  other.inputs[1].second = "3";
  CHECK(refusal(other, three_lines()) == start + "profile");
  other.inputs[0].second = "4";
  CHECK(refusal(other, three_lines()) == start + "scenario, profile");
  other = identity();
  other.inputs.emplace_back("plans", "5");
  CHECK(refusal(other, three_lines()) == start + "plans");
  other = identity();
  other.inputs.pop_back();
  CHECK(refusal(other, three_lines()) == start + "profile");
  other = identity();
  other.points = 11;
  CHECK(refusal(other, three_lines()) == start + "number of points");
  const std::string another_file = "j: /: expected the journal of a sweep, or no such file, got another file";
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string& text :
       std::vector<std::string>{"a,b\n1,2\n", "{}\n", "[]\n", "notes", "\n",
                                "{\"format\": \"fusewise.sweep_journal\"}\n", "{\"format\": " + deep + "}\n",
                                R"({"format": "fusewise.sweep_journal", "inputs": {"a": )" + deep + "}}\n"}) {
    CAPTURE(text);
    CHECK(refusal(identity(), text) == another_file);
  }
}

TEST_CASE("journal: a file goes on after a torn line, and is refused without resume") {
  const support::TemporaryFolder folder;
  const std::filesystem::path file = folder / "j";
  {
    Journal journal(file, identity(), false);
    journal.add(std::vector<Finished>{finished(3), finished(1)});
  }
  const std::string two = support::contents(file);
  (void)folder.put("j", two + "3 2 0123456789abcdef [\"tor");
  CHECK_THROWS_WITH_AS(
      Journal(file, identity(), false),
      (file.string() + ": /: expected --resume, or no journal of an unfinished sweep, got one of 2 of 10 "
                       "points")
          .c_str(),
      core::InputError);
  {
    Journal journal(file, identity(), true);
    CHECK(support::contents(file) == two);
    REQUIRE(journal.earlier().size() == 2);
    CHECK(journal.earlier()[1] == finished(1));
    journal.add(std::vector<Finished>{finished(2)});
    CHECK(journal.lines() == 3);
    CHECK(support::contents(file) == three_lines());
    journal.remove();
  }
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("journal: two processes are not at one sweep at once, and no other file is written over") {
  const support::TemporaryFolder folder;
  const std::filesystem::path file = folder / "j";
  const Journal journal(file, identity(), false);
  CHECK_THROWS_AS(Journal(file, identity(), true), core::EnvironmentError);  // flock() locks belong to open
                                                                             // files, so this works within
                                                                             // one process
  (void)folder.put("notes", "mine\n");
  CHECK_THROWS_AS(Journal(folder / "notes", identity(), true), core::InputError);
  CHECK(support::contents(folder / "notes") == "mine\n");
}

}  // namespace
}  // namespace sweep
