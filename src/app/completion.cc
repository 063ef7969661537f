#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "app/commands.h"

namespace weir::app {
namespace {

struct Option {
  std::string name;  // "--wait"
  std::string about;
};

struct Command {
  std::string name;
  std::string about;
  std::vector<Option> options;
};

std::vector<Command> commands_of(const CLI::App& program) {
  std::vector<Command> commands;
  for (const CLI::App* command : program.get_subcommands({})) {
    Command& added =
        commands.emplace_back(Command{command->get_name(), command->get_description(), {}});
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        added.options.push_back({"--" + name, option->get_description()});
      }
    }
  }
  return commands;
}

std::vector<std::string> names(const auto& things) {
  std::vector<std::string> names;
  for (const auto& thing : things) names.push_back(thing.name);
  return names;
}

// Inside single quotes.
std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) {
    text.replace(at, 1, "'\\''");
  }
  return "'" + text + "'";
}

std::string bash(const std::vector<Command>& commands) {
  std::string cases;
  for (const Command& command : commands) {
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name,
                         fmt::join(names(command.options), " "));
  }
  return fmt::format(R"(_weir() {{
  local words="{}"
  case "${{COMP_WORDS[1]}}" in
{}  esac
  ((COMP_CWORD == 1)) && words="{}"
  [[ "${{COMP_WORDS[1]}}" == completion && COMP_CWORD -eq 2 ]] && words="bash zsh fish"
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _weir weir
)",
                     fmt::join(names(commands), " "), cases, fmt::join(names(commands), " "));
}

std::string zsh(const std::vector<Command>& commands) {
  std::string list;
  std::string cases;
  for (const Command& command : commands) {
    list += fmt::format("    {}\n", quoted(command.name + ":" + command.about));
    cases += fmt::format("    {}) _arguments", command.name);
    for (const Option& option : command.options) {
      std::string about = option.about;
      std::erase_if(about, [](char c) { return c == '[' || c == ']'; });
      cases += " " + quoted(fmt::format("*{}[{}]", option.name, about));
    }
    cases += " '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef weir
_weir() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  case "$words[2]" in
{}  esac
}}
compdef _weir weir
)",
                     list, cases);
}

std::string fish(const std::vector<Command>& commands) {
  std::string out = "complete -c weir -f -n __fish_use_subcommand\n";
  for (const Command& command : commands) {
    out += fmt::format("complete -c weir -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       quoted(command.about));
    for (const Option& option : command.options) {
      out += fmt::format("complete -c weir -n '__fish_seen_subcommand_from {}' -l {} -d {}\n",
                         command.name, option.name.substr(2), quoted(option.about));
    }
  }
  return out;
}

}  // namespace

std::string completion(const CLI::App& program, const std::string& shell) {
  const std::vector<Command> commands = commands_of(program);
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  return fish(commands);
}

}  // namespace weir::app
