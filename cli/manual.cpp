#include "cli/manual.hpp"

#include <algorithm>
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
  std::replace(usage.begin(), usage.end(), '-', ' ');
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
      "outside its "
      "tolerance.\n";
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
        if (std::find(words.begin(), words.end(), name) == words.end()) words.push_back(name);
    cases += fmt::format("    {}) words=\"{}\" ;;\n", each.name, fmt::join(words, " "));
  }
  return fmt::format(
      "# bash completion for fusewise; made from its command line.\n"
      "_fusewise() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words=\"{}\"\n"
      "  ((COMP_CWORD == 1)) || case ${{COMP_WORDS[1]}} in\n{}    *) words=\"\" ;;\n  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\"; [[ $word == -* ]] || ((COMP_CWORD == "
      "1)) || "
      "compgen -f -- \"$word\")\n"
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

std::string zsh(const CommandText& program) {
  std::string commands;
  std::string cases;
  for (const CommandText& each : program.commands) {
    commands += fmt::format("    '{}:{}'\n", each.name, quoted(each.help, ":"));
    std::string arguments;
    for (const OptionText& option : each.options) {
      if (option.is_positional) continue;
      const std::size_t at = option.names.rfind("--");
      arguments +=
          fmt::format(" \\\n        '{}[{}]{}'", option.names.substr(at == std::string::npos ? 0 : at),
                      quoted(option.help, "[]:"), option.takes_value ? ":value:_files" : "");
    }
    if (!each.commands.empty())
      arguments += fmt::format(" \\\n        '1:command:({})'", fmt::join(names(each.commands), " "));
    cases += fmt::format("      {}) _arguments{} \\\n        '*:file:_files' ;;\n", each.name, arguments);
  }
  return fmt::format(
      "#compdef fusewise\n# zsh completion for fusewise; made from its command line.\n"
      "_fusewise() {{\n  local -a commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n    _describe command commands\n  else\n    local command=$words[2]\n"
      "    shift words\n    ((CURRENT--))\n    case $command in\n{}    esac\n  fi\n}}\n_fusewise \"$@\"\n",
      commands, cases);
}

std::string fish(const CommandText& program) {
  std::string out = "# fish completion for fusewise; made from its command line.\n";
  for (const CommandText& each : program.commands) {
    out += fmt::format("complete -c fusewise -n __fish_use_subcommand -a {} -d '{}'\n", each.name,
                       quoted(each.help, ""));
    for (const CommandText& below : each.commands)
      out += fmt::format("complete -c fusewise -n '__fish_seen_subcommand_from {}' -a {} -d '{}'\n",
                         each.name, below.name, quoted(below.help, ""));
    for (const OptionText& option : each.options) {
      const std::size_t at = option.names.rfind("--");
      if (option.is_positional || at == std::string::npos) continue;
      out +=
          fmt::format("complete -c fusewise -n '__fish_seen_subcommand_from {}' -l {}{} -d '{}'\n", each.name,
                      option.names.substr(at + 2), option.takes_value ? " -r" : "", quoted(option.help, ""));
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
