#include "app/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "app/commands.h"

namespace weir::app {
namespace {

constexpr const char* kAbout =
    "Weir lets many workers share metered APIs without overrunning them.\n\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 69 daemon not reachable,\n"
    "75 refused by a limit.";

// Help without what excludes what: mistakes name it.
class Help final : public CLI::Formatter {
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = Formatter::make_option_opts(option);
    return text.substr(0, std::min(text.find(" Needs:"), text.find(" Excludes:")));
  }
};

std::string failure(const CLI::App* program, const CLI::Error& error) {
  constexpr std::string_view kConversion = "Could not convert: ";  // --agents = x
  std::string text = error.what();
  if (text.starts_with(kConversion)) {
    const std::size_t equals = text.find(" = ");
    text = fmt::format("{} cannot be \"{}\"",
                       text.substr(kConversion.size(), equals - kConversion.size()),
                       text.substr(equals + 3));
  }
  std::string command = program->get_name();
  for (const CLI::App* subcommand : program->get_subcommands()) {
    command += " " + subcommand->get_name();
  }
  return fmt::format("weir: {} (see {} --help)\n", text, command);
}

// A number in a range that the option's text tells.
template <class T>
void add_count(CLI::App* command, const char* name, T& value, const char* about, int least,
               int most) {
  command->add_option(name, value, about)
      ->type_name("N")
      ->check(CLI::Range(least, most).description(""));
}

// A command with its --help: what it does, and an example.
CLI::App* add(CLI::App& program, const std::string& name, const std::string& about,
              const std::string& example) {
  CLI::App* command = program.add_subcommand(name, about);
  command->footer("Example:\n  " + example);
  return command;
}

void add_server(CLI::App* command, ServerOptions& options) {
  command->add_option("--server", options.server,
                      "Daemon's address (default: $WEIR_SERVER, else 127.0.0.1:9347)");
}

void add_json(CLI::App* command, Output& output) {
  command->add_flag_callback(
      "--json", [&output] { output = Output::kJson; }, "For programs: JSON instead of a table");
}

void add_request(CLI::App* command, AcquireOptions& options) {
  command->add_option("RESOURCE", options.resource, "A resource's name, or a URL")->required();
  command->add_option("--tokens", options.tokens, "Tokens that the call will take")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--agent", options.agent, "Who asks; agents share fairly");
  command->add_option("--model", options.model, "The model that is called");
  command->add_option("--priority", options.priority, "Higher goes first (-100 to 100)");
  command->add_option("--wait", options.wait, "How long to wait for admission, such as 30s");
  add_server(command, options.server);
}

void add_simulation(CLI::App* command, SimulateOptions& options) {
  const auto add = [command](const char* name, auto& value, const char* type, const char* about) {
    return command->add_option(name, value, about)->type_name(type);
  };
  add("--agents", options.agents, "N", "How many (default 50, or those that the trace names)");
  add("--greedy", options.greedy, "N", "How many of them want ten times as much");
  add("--duration", options.duration, "TIME", "Simulated (default 1h)");
  CLI::Option* trace = add("--trace", options.trace, "FILE",
                           "CSV: time_ms,input_tokens,output_tokens and perhaps agent");
  add("--tokens", options.tokens, "N-N",
      "Prompt of a call, such as 200-4000 (default: a real trace's)")
      ->excludes(trace);
  add("--output-tokens", options.output_tokens, "N-N", "Answer to a call, such as 50-800")
      ->excludes(trace);
  add("--rate", options.rate, "RATE", "Calls of one agent (default 6/m, or the trace's)");
  CLI::Option* provider =
      add("--provider", options.provider, "FILE", "Provider file with the limits");
  add("--rpm", options.rpm, "N", "Requests a minute (default 500 if no limit is given)")
      ->excludes(provider);
  add("--tpm", options.tpm, "N", "Tokens a minute (default 250000 if no limit is given)")
      ->excludes(provider);
  add("--max-concurrency", options.max_concurrency, "N", "Calls at a time")->excludes(provider);
  add("--model", options.model, "NAME", "The model that is called, for its limits and its price");
  add("--latency", options.latency, "TIME", "Of an answer (default 800ms)");
  add("--token-latency", options.token_latency, "TIME", "And for each token of it (default 10ms)");
  add("--patience", options.patience, "TIME", "How long a call may wait (default 1m)");
  add("--retries", options.retries, "N", "After a 429, without Weir (default 2, as in SDKs)");
  command->add_flag_callback(
      "--no-retry-after", [&options] { options.retry_after = false; },
      "A 429 does not say when to come back");
  add("--seed", options.seed, "N", "The same seed gives the same figures (default 1)");
  CLI::Option* report = add("--report", options.report, "FILE", "Write an HTML page with plots");
  CLI::Option* feed = command->add_flag("--feed", options.feed,
                                        "Find out how many agents the quota can feed with Weir");
  feed->excludes(report);
  add("--wait-p99", options.wait_p99, "TIME",
      "With --feed: fed is who waits less than this in 99% (default 10s)")
      ->needs(feed);
  add_json(command, options.output);
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App program{kAbout, "weir"};
  program.require_subcommand(1);
  program.set_version_flag("--version", "weir " WEIR_VERSION, "Print the version");
  program.set_help_all_flag("--help-all", "Help of all commands");
  program.formatter(std::make_shared<Help>());
  program.failure_message(failure);
  int code = kDone;

  StartOptions starting;
  CLI::App* start_command =
      add(program, "start", "Run the daemon", "weir start --provider-dir providers/");
  start_command->add_option("--config", starting.files.main_file, "Main file");
  start_command
      ->add_option("--provider", starting.files.provider_files, "Provider file; may be repeated")
      ->allow_extra_args(false);
  start_command
      ->add_option("--provider-dir", starting.files.provider_dirs,
                   "Directory of provider files; may be repeated")
      ->allow_extra_args(false);
  start_command->add_option("--listen", starting.listen, "Address (default 127.0.0.1:9347)");
  start_command->add_option("--store", starting.store,
                            "Where state is kept: a file, or a postgresql:// URL (default: a file "
                            "in ~/.local/state/weir)");
  start_command
      ->add_option("--durability", starting.durability,
                   "What a crash may forget: exact nothing, snapshot 10 s, none all")
      ->check(CLI::IsMember({"exact", "snapshot", "none"}));
  start_command
      ->add_option("--sync", starting.sync, "What a commit survives: process kill -9, power a cut")
      ->check(CLI::IsMember({"process", "power"}));
  start_command
      ->add_option("--log", starting.log, "Log format (default: text on a terminal, else json)")
      ->check(CLI::IsMember({"text", "json"}));
  add_count(start_command, "--threads", starting.threads, "1 to 256 (default: one a core)", 1, 256);
  start_command->callback([&] { code = start(starting); });

  std::vector<std::string> files;
  CLI::App* check_command =
      add(program, "check", "Check configuration files and say what they mean",
          "weir check providers/*.yaml");
  check_command
      ->add_option("FILE", files, "Providers, sources or a main file; a folder of them; - is stdin")
      ->required();
  check_command->callback([&] { code = check(files); });

  StatusOptions shown;
  CLI::App* status_command =
      add(program, "status", "Show limits and queues", "weir status --watch");
  status_command->add_flag("--watch", shown.watch, "Keep showing, every second");
  CLI::App* resources_command =
      add(program, "resources", "List the resources and their limits", "weir resources --json");
  for (CLI::App* command : {status_command, resources_command}) {
    add_json(command, shown.output);
    add_server(command, shown.server);
  }
  status_command->callback([&] { code = status(shown); });
  resources_command->callback([&] { code = resources(shown); });

  AcquireOptions asked;
  CLI::App* acquire_command = add(program, "acquire", "Ask for admission of one call",
                                  "weir acquire anthropic --tokens 1200 --wait 30s");
  add_request(acquire_command, asked);
  add_json(acquire_command, asked.output);
  acquire_command->callback([&] { code = acquire(asked); });
  CLI::App* exec_command = add(program, "exec", "Run a command while holding a permit",
                               "weir exec anthropic --tokens 1200 --wait 30s -- ./call-the-api.sh");
  add_request(exec_command, asked);
  exec_command->add_option("COMMAND", asked.command, "The command and its arguments, after --")
      ->required();
  exec_command->callback([&] { code = exec(asked); });

  ServerOptions reloaded;
  CLI::App* reload_command =
      add(program, "reload", "Make the daemon read its configuration again", "weir reload");
  add_server(reload_command, reloaded);
  reload_command->callback([&] { code = reload(reloaded); });

  ServerOptions keeping;
  std::vector<std::string> definitions;
  CLI::App* add_command = add(program, "add", "Add sources, which the daemon fetches regularly",
                              "weir add fmp-aapl-prices.yaml\n"
                              "where that file holds:\n"
                              "    name: fmp-aapl-prices\n"
                              "    url: https://financialmodelingprep.com/api/v3/quote/AAPL\n"
                              "    every: 5m");
  add_command
      ->add_option("FILE", definitions,
                   "Definitions: name, url, every, timeout, headers; a folder of them; - is stdin")
      ->required();
  add_command->callback([&] { code = add_sources(keeping, definitions); });
  SourcesOptions listed;
  CLI::App* sources_command =
      add(program, "sources", "List the sources, or show one of them with its results",
          "weir sources\n  weir sources fmp-aapl-prices --body");
  sources_command->add_option("NAME", listed.name, "One source");
  CLI::Option* body_flag =
      sources_command->add_flag("--body", listed.body, "Print what was fetched last");
  add_json(sources_command, listed.output);
  body_flag->excludes("--json");
  sources_command->callback([&] { code = sources(listed); });
  std::string removed;
  CLI::App* remove_command =
      add(program, "remove", "Remove a source and its results", "weir remove fmp-aapl-prices");
  remove_command->add_option("NAME", removed, "The source")->required();
  remove_command->callback([&] { code = remove_source(keeping, removed); });
  for (CLI::App* command : {add_command, remove_command}) add_server(command, keeping);
  add_server(sources_command, listed.server);

  DemoOptions shown_off;
  CLI::App* demo_command =
      add(program, "demo", "Show what Weir does: a fleet of agents without it, then with it",
          "weir demo --hold");
  demo_command->add_flag_callback(
      "--no-page", [&shown_off] { shown_off.page = false; }, "Do not say where the page is");
  demo_command->add_flag("--hold", shown_off.hold, "Go on afterwards until Ctrl-C");
  demo_command->add_option("--listen", shown_off.listen,
                           "Daemon's address (default 127.0.0.1:9347, else any free port)");
  add_count(demo_command, "--seconds", shown_off.seconds, "Of each half, 1 to 3600 (default 40)", 1,
            3600);
  add_count(demo_command, "--agents", shown_off.agents, "2 to 200 (default 24)", 2, 200);
  add_json(demo_command, shown_off.output);
  demo_command->callback([&] { code = demo(shown_off); });

  SimulateOptions simulated;
  CLI::App* simulate_command =
      add(program, "simulate", "Try a fleet on a quota in simulated time, without Weir and with it",
          "weir simulate --agents 80 --tpm 400000 --report fleet.html\n"
          "  weir simulate --tpm 400000 --feed");
  add_simulation(simulate_command, simulated);
  simulate_command->callback([&] { code = simulate(simulated); });

  std::string shell;
  CLI::App* completion_command =
      add(program, "completion", "Print a script that completes commands in a shell",
          "source <(weir completion bash)");
  completion_command->add_option("SHELL", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion_command->callback([&] { fmt::print("{}", completion(program, shell)); });

  add(program, "version", "Print the version", "weir version")->callback([] {
    fmt::print("weir {}\n", WEIR_VERSION);
  });

  if (argc == 1) {
    fmt::print(stderr, "weir: which command? (see weir --help)\n");
    return kUsage;
  }
  const auto asked_for = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argv[1][0] != '-' && program.get_subcommands(asked_for).empty()) {
    fmt::print(stderr, "weir: there is no command \"{}\" (see weir --help)\n", argv[1]);
    return kUsage;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? kDone : kUsage;
  } catch (const std::logic_error& error) {  // Boost.JSON's: the answer is not a daemon's
    fmt::print(stderr, "weir: the answer is not a Weir daemon's ({}); is this its address?\n",
               error.what());
    return kFailed;
  }
  return code;
}

}  // namespace weir::app
