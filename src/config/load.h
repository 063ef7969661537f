// Files → one Model, or every mistake in all of them at once.
//
// Reads files and nothing else. Hostile input is refused with its place: aliases, anchors, tags,
// duplicate and unknown keys, nesting deeper than 64, files above 1 MiB, a secret in a file that
// others may read. No message ever quotes the value of a key that holds a secret.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"

namespace weir {

struct ConfigFiles {
  std::string main_file = {};  // empty: none
  std::vector<std::string> provider_files = {};
  std::vector<std::string> provider_dirs = {};  // every *.yaml, *.yml and *.json in them, by name

  bool empty() const {
    return main_file.empty() && provider_files.empty() && provider_dirs.empty();
  }
};

using Mistakes = std::vector<Mistake>;  // by file in the order of reading, then by place

// The main file, the providers it names, and the others.
std::expected<Model, Mistakes> load(const ConfigFiles& files);

// Files of every kind, told apart by what they hold, as one configuration: `weir check`. A folder
// stands for the files in it, "-" for standard input.
std::expected<Model, Mistakes> load_files(const std::vector<std::string>& files);
// Likewise definitions of sources alone, one in a file or a list of them: `weir add`.
std::expected<std::vector<SourceConfig>, Mistakes> load_sources(
    const std::vector<std::string>& files);

// A provider file's text as if it stood in `file`. For embedded defaults, tests and fuzzing.
std::expected<ProviderConfig, Mistakes> parse_provider(std::string_view text, std::string file);
// Likewise a main file; providers that it names are not read.
std::expected<Model, Mistakes> parse_main(std::string_view text, std::string file);

// The limits of a PUT or of a file's `limits:` entry, from JSON or YAML text: the same keys, the
// same checks, the same names by default.
std::expected<std::vector<LimitConfig>, Mistakes> parse_limits(std::string_view text,
                                                               std::string file);

// A source's definition. `name`: what it is to be called, where the text may leave that out; empty:
// the text must say it.
std::expected<SourceConfig, Mistakes> parse_source(std::string_view text, std::string file,
                                                   std::string_view name = {});

// Letters, digits, '.', '_', '-'; 1 to 64 of them.
bool is_name(std::string_view text);

// Why this must not start: it listens beyond this machine without any token. load() has asked
// this of the file; ask again after overriding `listen`.
std::optional<std::string> wide_open(const MainConfig& main);

// "127.0.0.1:9347", "[::1]:0", "localhost:9347" or a port alone.
Result<Listen> parse_listen(std::string_view text);
// "30s", "5m", "1h", "1d", "250ms".
Result<Nanos> parse_period(std::string_view text);

// What a provider's limits amount to, in plain words, a line each:
//   anthropic (api.anthropic.com)
//     at most 300 requests in each window of 1m, starting with its first request
//     …
std::string explain(const ProviderConfig& provider);
// Likewise when and whence a source is fetched.
std::string explain(const SourceConfig& source);

}  // namespace weir
