#include "cli/command_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/file_guard.hpp"
#include "core/ignoring_case.hpp"

namespace cli {

template <typename Number>
Check range(Number min, Number max) {
  const auto error = [min, max](const std::string& text) {
    Number value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) return std::string();
    return fmt::format("expected {} from {} to {}, got '{}'",
                       std::is_integral_v<Number> ? "one whole number" : "a number", min, max,
                       core::printable(text));
  };
  return std::make_shared<CLI::Validator>(
      error, fmt::format("{} in [{} - {}]", CLI::detail::type_name<Number>(), min, max));
}

template Check range(int, int);
template Check range(std::uint32_t, std::uint32_t);
template Check range(std::int64_t, std::int64_t);
template Check range(double, double);

Check number_in(double min, double max) {
  const auto error = [min, max](const std::string& text) {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= min && value <= max) return std::string();
    return fmt::format("expected a number from {:g} to {:g}, got '{}'", min, max, core::printable(text));
  };
  return std::make_shared<CLI::Validator>(error, fmt::format("from {:g} to {:g}", min, max));
}

Check one_of(const std::vector<std::string_view>& names) {
  const auto error = [names](std::string& text) {
    text = core::ignoring_case(text, names);
    if (std::ranges::find(names, text) != names.end()) return std::string();
    return fmt::format("expected one of {}, got '{}'{}", fmt::join(names, ", "), core::printable(text),
                       core::suggestion(text, names));
  };
  return std::make_shared<CLI::Validator>(error, fmt::format("{{{}}}", fmt::join(names, ",")));
}

Check check_with(const std::function<std::string(const std::string&)>& error) {
  return std::make_shared<CLI::Validator>(error, "");
}

Option Option::required() const { return Option(option_->required()); }
Option Option::check(const Check& check) const { return Option(option_->transform(*check)); }
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::needs(const Option& other) const { return Option(option_->needs(other.option_)); }
Option Option::excludes(const Option& other) const { return Option(option_->excludes(other.option_)); }
Option Option::delimiter(char character) const { return Option(option_->delimiter(character)); }
Option Option::expected(int min, int max) const { return Option(option_->expected(min, max)); }
Option Option::repeatable() const {
  return Option(option_->expected(1)->take_all()->allow_extra_args(false));
}
std::string Option::name() const { return option_->get_name(); }
bool Option::is_given() const { return option_->count() > 0; }

template <typename Value>
Option Command::add_option(const std::string& names, Value& variable, const std::string& help) const {
  return Option(app_->add_option(names, variable, help));
}

Option Command::add_option(const std::string& names, const std::function<void(const std::string&)>& take,
                           const std::string& help) const {
  return Option(app_->add_option_function<std::string>(names, take, help));
}

Option Command::add_output(const std::string& names, std::string& file, const std::string& help) const {
  const Check is_name = check_with([](const std::string& text) {
    return text.empty() ? std::string("expected the name of a file, got ''") : std::string();
  });
  CLI::Option* const option = app_->add_option(names, file, help)->check(*is_name);
  option->each([option](const std::string& text) { core::add_output(option->get_name(), text); });
  return Option(option);
}

Option Command::add_flag(const std::string& names, bool& variable, const std::string& help) const {
  return Option(app_->add_flag(names, variable, help));
}

Command Command::add_group(const std::string& title, const std::string& help) const {
  return Command(app_->add_option_group(title, help));
}

Command Command::add_command(const std::string& name, const std::string& help) const {
  CLI::App* const command = app_->add_subcommand(name, help);
  command->add_flag_callback("--quiet", be_quiet, "print neither warnings nor progress");
  return Command(command);
}

void Command::has_no(const std::string& option, const std::string& instead) const {
  app_->add_flag_callback(
          option,
          [option, instead] {
            throw core::InputError(fmt::format("{}: expected no such option: {}", option, instead));
          })
      ->group("");
}

void Command::require_subcommand() const { app_->require_subcommand(1); }
void Command::hide() const { app_->group(""); }
void Command::footer(const std::string& text) const { app_->footer(text); }
void Command::on_run(const std::function<void()>& run) const { app_->callback(run); }
void Command::takes_command_line() const { app_->prefix_command(); }
std::vector<std::string> Command::rest() const { return app_->remaining(); }

std::vector<Option> Command::options() const {
  std::vector<Option> out;
  for (CLI::Option* option : app_->get_options()) out.emplace_back(option);
  return out;
}

Program::Program(const std::string& name, const std::string& help, const std::string& version,
                 std::string start)
    : app_(std::make_unique<CLI::App>(help, name)), start_(std::move(start)) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
  app_->failure_message(CLI::FailureMessage::simple);
  app_->add_flag_callback("--quiet", be_quiet, "print neither warnings nor progress");
}

Program::~Program() = default;

namespace {

OptionText text_of(const CLI::Option& option) {
  return {.names = option.get_positional() ? option.get_name() : option.get_name(false, true),
          .help = option.get_description(),
          .is_positional = option.get_positional(),
          .takes_value = option.get_expected_max() > 0};
}

CommandText text_of(const CLI::App& app) {
  CommandText out = {.name = app.get_name(),
                     .help = app.get_description(),
                     .footer = app.get_footer(),
                     .options = {},
                     .commands = {}};
  for (const CLI::Option* option : app.get_options({})) out.options.push_back(text_of(*option));
  for (const CLI::App* each : app.get_subcommands([](const CLI::App* /*any*/) { return true; })) {
    const CommandText below = text_of(*each);
    if (each->get_name().empty())  // a group of options
      out.options.insert(out.options.end(), below.options.begin(), below.options.end());
    else if (!each->get_group().empty())
      out.commands.push_back(below);
  }
  return out;
}

}  // namespace

void Program::name_pages(std::span<const DocumentationPage> pages) const {
  for (const DocumentationPage& each : pages) {
    std::vector<CLI::App*> about = {app_.get()};
    if (!each.command.empty()) {
      CLI::App* const command = app_->get_subcommand(std::string(each.command));
      about = command->get_subcommands([](const CLI::App* below) { return !below->get_name().empty(); });
      about.push_back(command);
    }
    for (CLI::App* const app : about) {
      const std::string before = app->get_footer();
      app->footer(fmt::format("{}{}Documentation: {}", before, before.empty() ? "" : "\n", each.page));
    }
  }
}

CommandText Program::text() const { return text_of(*app_); }

namespace {

/// Without the hidden ones.
std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App* /*any*/) { return true; }))
    if (!each->get_group().empty()) out.push_back(each->get_name());
  return out;
}

/// CLI11's own message for an unknown command only says that a command is required.
void check_command(const CLI::App& app, const std::string& command, std::string_view hint = "") {
  if (command[0] == '-') return;  // an option of the program
  for (const CLI::App* each : app.get_subcommands([](const CLI::App* /*any*/) { return true; }))
    if (each->get_name() == command) return;
  const std::vector<std::string> names = command_names(app);
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw core::InputError(fmt::format("expected a command among {}, got '{}'{}{}", fmt::join(known, ", "),
                                     core::printable(command), core::suggestion(command, known), hint));
}

/// `help COMMAND` and `COMMAND help` ask for what `COMMAND --help` does, unless there is a file named help.
void ask_for_help(std::vector<const char*>& words) {
  constexpr std::string_view kHelp = "help";
  std::error_code none;
  if (words[1] == kHelp) {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  } else if (words.size() == 3 && words[2] == kHelp && !std::filesystem::exists(kHelp, none)) {
    words[2] = "--help";
  }
}

/// The long options that --help lists.
std::vector<std::string> listed_options(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) out.push_back(name);
  return out;
}

/// A suggestion for an option that a command does not have.
std::string similar_option(const CLI::App& command, const std::string& unknown) {
  const std::string word = unknown.substr(2, unknown.find('=') - 2);  // --option=value, too
  const std::vector<std::string> names = listed_options(command);
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::string similar = core::suggestion(word, known);
  const std::size_t quote = similar.find('\'');
  return quote == std::string::npos ? "" : similar.insert(quote + 1, "--");
}

/// Other commands take several numbers of workers: what is wrong with a second one.
std::string second_number(const CLI::App& command) {
  const CLI::Option* const workers = command.get_option_no_throw("--workers");
  const std::vector<std::string> rest = command.remaining(false);
  const bool is_given = workers != nullptr && workers->count() == 1;
  if (!is_given || rest.empty() || rest.front().find_first_not_of("0123456789,") != std::string::npos)
    return "";
  return fmt::format("--workers: expected one number, got {} {}", workers->results().front(),
                     fmt::join(rest, " "));
}

/// Returns what is wrong with the first argument that nothing takes, or an empty text if that cannot be told.
std::string unknown_argument(const CLI::App& command) {
  for (const std::string& word : command.remaining(false)) {
    if (!word.starts_with("--") || word.size() < 3) continue;
    if (const std::string similar = similar_option(command, word); !similar.empty())
      return fmt::format("The following argument was not expected: {}{}", core::printable(word), similar);
  }
  const std::vector<CLI::App*> chosen = command.get_subcommands();
  return chosen.empty() ? second_number(command) : unknown_argument(*chosen.front());
}

/// An unknown command below a command, such as `netlab upp`, or none.
void check_subcommand(const CLI::App& app) {
  const std::vector<CLI::App*> all = app.get_subcommands();
  const CLI::App& last = all.empty() ? app : *all.front();
  if (last.get_require_subcommand_min() == 0 || !last.get_subcommands().empty()) return;
  for (const std::string& word : last.remaining(false)) {
    check_command(last, word);
    throw core::InputError(fmt::format("The following argument was not expected: {} (try --help)", word));
  }
  throw core::InputError(
      fmt::format("expected a command among {} (try --help)", fmt::join(command_names(last), ", ")));
}

/// CLI11's own messages have unknown arguments in the reverse order, and name a type where a value is
/// missing.
std::string message_of(const CLI::ParseError& error, const CLI::App& app) {
  const std::string text = error.what();
  const std::size_t missing = text.find(": 1 required ");
  if (missing != std::string::npos && text.ends_with(" missing"))
    return text.substr(0, missing) + ": expected a value, got none";
  const std::vector<std::string> rest = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || rest.size() < 2) return text;
  return fmt::format("The following arguments were not expected: {}", fmt::join(rest, " "));
}

bool starts_with_any(const std::string& line, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return line.starts_with(word); });
}

/// Fits a help text to a terminal. Sentences that go on in the next line are broken anew, and examples stay
/// whole, because they are there to be pasted.
std::string fitted_help(const std::string& help, std::size_t width) {
  if (width == 0) return help;
  std::string out;
  std::string sentences;
  bool is_example = false;
  const auto end_sentences = [&] {
    if (!sentences.empty()) out += fitted(sentences + '\n', width);
    sentences.clear();
  };
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const bool is_part =
        !line.empty() && !starts_with_any(line, {" ", "Usage:", "Example", "Documentation:"});
    const bool goes_on = !sentences.empty() && sentences.back() != '.' && sentences.back() != ':';
    if (is_part && goes_on) sentences += ' ' + line;
    if (is_part && goes_on) continue;
    end_sentences();
    if (is_part) sentences = line;
    is_example = line.starts_with("Example") || (is_example && line.starts_with(' '));
    if (is_part) continue;
    for (std::size_t i = 0; line.size() > width && !is_example && i < line.size(); ++i)
      if (line[i] == ',' && line.find('{') < i && i < line.rfind('}')) line.insert(++i, " ");  // of values
    out += is_example ? line + '\n' : fitted(line + '\n', width);
  }
  end_sentences();
  return out;
}

}  // namespace

std::string Program::run(int argc, const char* const* argv) {
  if (argc == 1) return fitted(start_, terminal_width(STDOUT_FILENO));
  std::vector<const char*> words(argv, argv + argc);
  ask_for_help(words);
  check_command(*app_, words[1], " (try fusewise --help)");
  try {
    app_->parse(static_cast<int>(words.size()), words.data());
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      check_subcommand(*app_);
      const std::string unknown = unknown_argument(*app_);
      throw core::InputError(
          fmt::format("{} (try --help)", unknown.empty() ? message_of(error, *app_) : unknown));
    }
    std::ostringstream out;  // CLI11 asks for help and version by exceptions, too
    app_->exit(error, out);
    std::string text = out.str();
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;)
      text.erase(at, 1);  // of has_no()
    return fitted_help(text, terminal_width(STDOUT_FILENO));
  }
}

template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint32_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::string>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<int>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::uint32_t>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::int64_t>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::int64_t>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<double>&, const std::string&) const;

}  // namespace cli
