#include "cli/manual.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cli {
namespace {

// ---- manual pages

/// Escapes a text for troff: a backslash, hyphens that are typed, and a dot that would begin a request.
std::string troff(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins_line = c == '\n';
  }
  return out;
}

std::string options_page(const CommandText& command) {
  std::string out;
  for (const OptionText& option : command.options)
    out += fmt::format(".TP\n.B {}{}\n{}\n", troff(option.names),
                       option.takes_value && !option.is_positional ? " VALUE" : "", troff(option.help));
  return out;
}

/// The page of a command; `name` is that of the page, such as fusewise-plan.
std::string page(const CommandText& command, const std::string& name, const std::string& version) {
  const std::string first_line = command.help.substr(0, command.help.find('\n'));
  std::string usage = name;
  std::ranges::replace(usage, '-', ' ');
  for (const OptionText& option : command.options)
    if (option.is_positional) usage += " " + option.names;
  usage += command.commands.empty() ? " [OPTIONS]" : " COMMAND [OPTIONS]";
  std::string out = fmt::format(
      ".TH {} 1 \"\" \"fusewise {}\" \"fusewise\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n.SH "
      "DESCRIPTION\n{}\n",
      name, version, troff(name), troff(first_line), troff(usage), troff(command.help));
  out += ".SH OPTIONS\n" + options_page(command);
  for (const CommandText& each : command.commands) {
    out += fmt::format(".SS {}\n{}\n", troff(each.name), troff(each.help));
    if (name != "fusewise") out += options_page(each);
  }
  if (!command.footer.empty()) out += ".SH EXAMPLES\n.nf\n" + troff(command.footer) + "\n.fi\n";
  out +=
      ".SH EXIT STATUS\n0: done; 1: the environment failed; 2: wrong usage or input; 3: a validation is "
      "outside its tolerance.\n";
  if (name == "fusewise")
    return out + ".SH SEE ALSO\nOne page for each command, such as\n.BR fusewise\\-plan (1).\n";
  return out + ".SH SEE ALSO\n.BR fusewise (1)\n";
}

// ---- completions

std::vector<std::string> long_names(const CommandText& command) {
  std::vector<std::string> out;
  for (const OptionText& option : command.options) {
    std::string_view left = option.names;
    while (!option.is_positional && !left.empty()) {
      const std::size_t comma = std::min(left.find(','), left.size());
      if (left.substr(0, 2) == "--") out.emplace_back(left.substr(0, comma));
      left.remove_prefix(std::min(comma + 1, left.size()));
    }
  }
  return out;
}

std::vector<std::string> names(const std::vector<CommandText>& commands) {
  std::vector<std::string> out;
  for (const CommandText& each : commands) out.push_back(each.name);
  return out;
}

std::string bash(const CommandText& program) {
  std::string cases;
  for (const CommandText& each : program.commands) {
    std::vector<std::string> words = names(each.commands);
    for (const std::string& name : long_names(each)) words.push_back(name);
    for (const CommandText& below : each.commands)
      for (const std::string& name : long_names(below))
        if (std::ranges::find(words, name) == words.end()) words.push_back(name);
    cases += fmt::format("    {}) words=\"{}\" ;;\n", each.name, fmt::join(words, " "));
  }
  return fmt::format(
      "# bash completion for fusewise; made from its command line.\n"
      "_fusewise() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words=\"{}\"\n"
      "  ((COMP_CWORD == 1)) || case ${{COMP_WORDS[1]}} in\n{}    *) words=\"\" ;;\n  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\"; [[ $word == -* ]] || ((COMP_CWORD == "
      "1)) || compgen -f -- \"$word\")\n"
      "}}\n"
      "complete -o filenames -F _fusewise fusewise\n",
      fmt::join(names(program.commands), " "), cases);
}

/// Escapes a help text for the descriptions of zsh and fish in single quotes, on one line.
std::string quoted(std::string_view text, std::string_view escaped) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '\n')
      out += ' ';
    else if (escaped.find(c) != std::string_view::npos)
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

/// `_arguments` with the options of a command; `first` describes its first argument, or is empty.
std::string zsh_arguments(const CommandText& command, const std::string& first) {
  std::string out = "_arguments";
  for (const OptionText& option : command.options)
    for (const std::string& name : long_names({.options = {option}}))
      out += fmt::format(" \\\n        '{}[{}]{}'", name, quoted(option.help, "[]:"),
                         option.takes_value ? ":value:_files" : "");
  return out + first + " \\\n        '*:file:_files' ;;\n";
}

std::string zsh(const CommandText& program) {
  std::string commands;
  std::string cases;
  for (const CommandText& each : program.commands) {
    commands += fmt::format("    '{}:{}'\n", each.name, quoted(each.help, ":"));
    if (each.commands.empty()) {
      cases += fmt::format("      {}) {}", each.name, zsh_arguments(each, ""));
      continue;
    }
    const std::string first =
        fmt::format(" \\\n        '1:command:({})'", fmt::join(names(each.commands), " "));
    for (const CommandText& below : each.commands)
      cases += fmt::format("      {}:{}) {}", each.name, below.name, zsh_arguments(below, first));
    cases += fmt::format("      {}:*) {}", each.name, zsh_arguments(each, first));
  }
  const auto has_commands = [](const CommandText& each) { return !each.commands.empty(); };
  std::vector<CommandText> parents;
  std::ranges::copy_if(program.commands, std::back_inserter(parents), has_commands);
  return fmt::format(
      "#compdef fusewise\n# zsh completion for fusewise; made from its command line.\n"
      "_fusewise() {{\n  local -a commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n    _describe command commands\n  else\n    local command=$words[2]\n"
      "    shift words\n    ((CURRENT--))\n"
      "    case $command in\n      {}) command+=:$words[2] ;;\n    esac\n"
      "    case $command in\n{}    esac\n  fi\n}}\n_fusewise \"$@\"\n",
      commands, fmt::join(names(parents), "|"), cases);
}

/// The options of a command, where a condition of fish holds.
std::string fish_options(const CommandText& command, const std::string& condition) {
  std::string out;
  for (const OptionText& option : command.options)
    for (const std::string& name : long_names({.options = {option}}))
      out += fmt::format("complete -c fusewise -n '{}' -l {}{} -d '{}'\n", condition, name.substr(2),
                         option.takes_value ? " -r" : "", quoted(option.help, ""));
  return out;
}

std::string fish(const CommandText& program) {
  std::string out = "# fish completion for fusewise; made from its command line.\n";
  for (const CommandText& each : program.commands) {
    const std::string chosen = "__fish_seen_subcommand_from " + each.name;
    out += fmt::format("complete -c fusewise -n __fish_use_subcommand -a {} -d '{}'\n", each.name,
                       quoted(each.help, ""));
    out += fish_options(each, chosen);
    for (const CommandText& below : each.commands) {
      out += fmt::format("complete -c fusewise -n '{}' -a {} -d '{}'\n", chosen, below.name,
                         quoted(below.help, ""));
      out += fish_options(below, fmt::format("{}; and __fish_seen_subcommand_from {}", chosen, below.name));
    }
  }
  return out;
}

}  // namespace

std::vector<ManualFile> manual(const CommandText& program, const std::string& version) {
  std::vector<ManualFile> out = {{"man/man1/fusewise.1", page(program, "fusewise", version)},
                                 {"bash-completion/completions/fusewise", bash(program)},
                                 {"zsh/vendor-completions/_fusewise", zsh(program)},
                                 {"fish/vendor_completions.d/fusewise.fish", fish(program)}};
  for (const CommandText& each : program.commands)
    out.push_back(
        {fmt::format("man/man1/fusewise-{}.1", each.name), page(each, "fusewise-" + each.name, version)});
  return out;
}

}  // namespace cli
