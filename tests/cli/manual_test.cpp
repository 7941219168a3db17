// Manual pages and completions are made from the command line.

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::run_program;

/// The first words of the lines of --help that are indented so: commands, or the names of options.
std::vector<std::string> listed(const std::string& help, const std::regex& line) {
  std::vector<std::string> out;
  for (std::sregex_iterator each(help.begin(), help.end(), line), end; each != end; ++each)
    out.push_back((*each)[1]);
  return out;
}

std::vector<std::string> commands_in(const std::string& help) {
  const std::size_t at = help.rfind("Subcommands:\n");
  return at == std::string::npos ? std::vector<std::string>{}
                                 : listed(help.substr(at), std::regex("\n  ([a-z]+) "));
}

/// All lines that begin with one of the texts, up to a line that ends with the other.
std::string part(const std::string& text, const std::string& begin, const std::string& end) {
  std::string out;
  for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos; ++at)
    out += text.substr(at + begin.size(), text.find(end, at) - at - begin.size()) + '\n';
  return out;
}

bool has_word(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("(^|[ \n'\"])" + word + "($|[ \n'\"\\[])"));
}

/// All commands, and those below them with their own first.
std::vector<std::vector<std::string>> all_commands() {
  std::vector<std::vector<std::string>> out;
  for (const std::string& name : commands_in(run_program({"--help"}).out)) {
    out.push_back({name});
    for (const std::string& below : commands_in(run_program({name, "--help"}).out))
      out.push_back({name, below});
  }
  return out;
}

/// Its long options as --help lists them, without the dashes.
std::vector<std::string> options_of(std::vector<std::string> command) {
  command.emplace_back("--help");
  return listed(run_program(command).out, std::regex("\n  (?:-[a-z],)?--([a-z0-9-]+)"));
}

TEST_CASE("manual: every option of --help is on the page of its command, once for each that has it") {
  const support::TemporaryFolder folder;
  REQUIRE(run_program({"manual", folder.path().string()}).exit_code == 0);
  for (const std::vector<std::string>& command : all_commands()) {
    CAPTURE(command.back());
    const std::string page =
        core::read_file(folder.path() / fmt::format("man/man1/fusewise-{}.1", command.front()));
    CHECK(page.find(fmt::format(".TH fusewise-{} 1", command.front())) == 0);
    const std::size_t begin = command.size() == 1 ? page.find("\n.SH OPTIONS\n")
                                                  : page.find(fmt::format("\n.SS {}\n", command.back()));
    REQUIRE(begin != std::string::npos);
    const std::string own = page.substr(begin, page.find("\n.S", begin + 1) - begin);
    std::string names = std::regex_replace(part(own, "\n.B ", "\n"), std::regex("\\\\-"), "-");
    std::ranges::replace(names, ',', ' ');
    for (const std::string& option : options_of(command)) {
      CAPTURE(option);
      CHECK(has_word(names, "--" + option));
    }
  }
}

TEST_CASE("manual: the completions have every option of every command, also of those below commands") {
  const support::TemporaryFolder folder;
  REQUIRE(run_program({"manual", folder.path().string()}).exit_code == 0);
  const std::string bash = core::read_file(folder.path() / "bash-completion/completions/fusewise");
  const std::string zsh = core::read_file(folder.path() / "zsh/vendor-completions/_fusewise");
  const std::string fish = core::read_file(folder.path() / "fish/vendor_completions.d/fusewise.fish");
  const std::vector<std::vector<std::string>> commands = all_commands();
  CHECK(commands.size() > 20);
  for (const std::vector<std::string>& command : commands) {
    const bool is_below = command.size() > 1;
    const std::string last = command.back();
    const std::string in_bash = part(bash, "\n    " + command.front() + ") ", "\n");
    const std::string in_zsh = is_below ? part(zsh, "\n      " + command.front() + ':' + last + ") ", ";;\n")
                                        : part(zsh, "\n      " + last + ") _", ";;\n") +
                                              part(zsh, "\n      " + last + ":*) ", ";;\n");
    const std::string in_fish = part(fish,
                                     "-n '__fish_seen_subcommand_from " + command.front() +
                                         (is_below ? "; and __fish_seen_subcommand_from " + last : "") + "' ",
                                     " -d ");
    CAPTURE(command.front());
    CAPTURE(last);
    if (is_below) {
      CHECK(has_word(in_bash, last));
      CHECK(zsh.find(fmt::format("\n      {}) command+=:$words[2] ;;\n", command.front())) !=
            std::string::npos);
      CHECK(
          has_word(part(fish, "-n '__fish_seen_subcommand_from " + command.front() + "' -a ", " -d "), last));
    }
    const std::vector<std::string> options = options_of(command);
    CHECK(options.size() >= 2);  // --help and --quiet
    for (const std::string& option : options) {
      CAPTURE(option);
      CHECK(has_word(in_bash, "--" + option));
      CHECK(has_word(in_zsh, "--" + option));
      CHECK(has_word(in_fish, "-l " + option));
    }
  }
}

TEST_CASE("manual: the command is for the build, and --help does not list it") {
  CHECK(run_program({"--help"}).out.find("manual") == std::string::npos);
}

}  // namespace
