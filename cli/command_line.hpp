// The command line: commands with their options, and checks of the values given. Only command_line.cpp
// includes CLI11, which takes seconds to compile.

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the name is that of the library
class App;
class Option;
class Validator;
}  // namespace CLI

namespace cli {

/// Accepts or rejects the text of a value; --help describes what it accepts.
using Check = std::shared_ptr<const CLI::Validator>;

/// Accepts numbers from `min` to `max`. Defined for int, std::uint32_t, std::int64_t and double.
template <typename Number>
Check range(Number min, Number max);

/// Accepts numbers from `min` to `max`, unlike range() never NaN.
Check number_in(double min, double max);

Check one_of(const std::vector<std::string_view>& names);

/// Accepts a text for which `error` returns an empty string.
Check check_with(const std::function<std::string(const std::string&)>& error);

/// A handle of one option of a command. Each setter returns the handle itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  Option check(const Check& check) const;
  /// Shows the value that the variable has now as the default in --help.
  Option show_default() const;
  Option needs(const Option& other) const;
  Option excludes(const Option& other) const;
  /// One text may hold several values with this character between them.
  Option delimiter(char character) const;
  /// The numbers of values that may follow the option.
  Option expected(int min, int max) const;
  /// One value follows the option, which may be given repeatedly.
  Option repeatable() const;

  /// "--output" rather than "-o".
  std::string name() const;
  bool is_given() const;

 private:
  CLI::Option* option_;
};

/// A handle of a command, a subcommand or a group of options.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  /// The variable must live until the command has run. Defined for the types at the end of command_line.cpp.
  template <typename Value>
  Option add_option(const std::string& names, Value& variable, const std::string& help) const;
  Option add_option(const std::string& names, const std::function<void(const std::string&)>& take,
                    const std::string& help) const;
  /// Adds an option that names a file to write. The file is announced to core::add_output(), so that the
  /// program refuses one that is also an input or another output, before the command runs.
  Option add_output(const std::string& names, std::string& file, const std::string& help) const;
  Option add_flag(const std::string& names, bool& variable, const std::string& help) const;

  /// Has a title of its own in --help.
  Command add_group(const std::string& title, const std::string& help) const;
  Command add_command(const std::string& name, const std::string& help) const;
  /// Refuses an option that other commands have; the message says what to use instead.
  void has_no(const std::string& option, const std::string& instead) const;
  void require_subcommand() const;
  /// --help does not list the command.
  void hide() const;
  /// Text below the options in --help.
  void footer(const std::string& text) const;
  void on_run(const std::function<void()>& run) const;
  /// What is not an option of the command begins the command line of another program, rest().
  void takes_command_line() const;
  std::vector<std::string> rest() const;

  std::vector<Option> options() const;

 private:
  CLI::App* app_;
};

/// An option or a positional argument as text, for manuals and completions.
struct OptionText {
  std::string names;  ///< "-o,--output", or the name of a positional argument
  std::string help;
  bool is_positional = false;
  bool takes_value = false;
};

/// A command as text, with its subcommands.
struct CommandText {
  std::string name;
  std::string help;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

/// The page of the documentation that explains a command; an empty name: the program.
struct DocumentationPage {
  std::string_view command;
  std::string_view page;
};

/// The program, which runs one of its commands.
class Program {
 public:
  /// `start` is what the program says without arguments.
  Program(const std::string& name, const std::string& help, const std::string& version, std::string start);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command command() const { return Command(app_.get()); }

  /// The --help of each command, and of its subcommands, ends with its page of the documentation.
  void name_pages(std::span<const DocumentationPage> pages) const;

  /// All commands that --help lists, with their options.
  CommandText text() const;

  /// Runs the command that the arguments name and returns an empty text, or returns the text that --help,
  /// --version or no argument at all asks for. Throws InputError for arguments that are wrong.
  std::string run(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
  std::string start_;
};

}  // namespace cli
