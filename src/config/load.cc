#include "config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "config/file.h"
#include "config/limits.h"
#include "config/main_file.h"
#include "config/provider_file.h"
#include "config/source_file.h"

namespace weir {
namespace {

using Order = std::map<std::string, std::size_t>;  // of files

void sort_by_place(Mistakes& mistakes, const Order& order) {
  std::ranges::sort(mistakes, {}, [&](const Mistake& mistake) {
    const auto& [place, field, message] = mistake;
    return std::tuple{order.at(place.file), place.line, place.column, std::string_view{field},
                      std::string_view{message}};
  });
}

// The tree of `text`, with its flaws among the mistakes; nothing if there is none.
std::optional<Node> parse(Reading& reading, std::string_view text) {
  Document document = parse_yaml(text);
  for (auto& flaw : document.flaws) {
    reading.mistakes.push_back(
        {{reading.file, flaw.line, flaw.column}, {}, std::move(flaw.message)});
  }
  return std::move(document.root);
}

// Reads `text` as if it stood in `file`, by read(reading, root).
template <class Read>
auto parse_text(std::string_view text, std::string file, Read read)
    -> std::expected<std::invoke_result_t<Read, Reading&, const Node&>, Mistakes> {
  Claims claims;
  Reading reading{.file = std::move(file), .claims = claims};
  const auto root = parse(reading, text);
  if (root) {
    auto value = read(reading, *root);
    if (reading.mistakes.empty()) return value;
  }
  sort_by_place(reading.mistakes, {{reading.file, 0}});
  return std::unexpected(std::move(reading.mistakes));
}

std::expected<FileText, std::string> read_given(const std::string& file) {
  return file == "-" ? read_standard_input() : read_file(file);
}

// Puts the files together, in the order in which they are read.
class Loader {
 public:
  // A mistake about a file that cannot be read stands at `at`: where it is named.
  void main_file(const std::string& file) {
    if (auto opened = open(file, {{file}})) main_file(*opened);
  }
  void provider_file(const std::string& file, const Mistake& at) {
    if (auto opened = open(file, at)) provider_file(*opened);
  }
  void provider_dir(const std::string& folder, const Mistake& at) {
    const auto files = list_folder(folder);
    if (!files) return mistake_at(at, folder, files.error());
    for (const std::string& file : *files) provider_file(file, {{file}});
  }
  void source_file(const std::string& file) {
    if (auto opened = open(file, {{file}}, read_given(file))) source_file(*opened);
  }
  void any_file(const std::string& file) {
    auto opened = open(file, {{file}}, read_given(file));
    if (!opened) return;
    const Node& root = opened->root;
    if (root.find("domain") != nullptr) return provider_file(*opened);
    if (root.kind == Node::Kind::kList || root.find("url") != nullptr ||
        root.find("every") != nullptr) {
      return source_file(*opened);
    }
    if (!main_.empty()) {
      opened->reading.mistake(opened->root, {},
                              fmt::format("a second main file; the first is {}", main_));
    }
    main_ = file;
    main_file(*opened);
  }

  // Calls read(file) with `path`, or with each file of the folder that it is.
  void each_file(const std::string& path, const auto& read) {
    if (!is_directory(path)) return read(path);
    const auto files = list_folder(path);
    if (!files) return mistake_at({{path}}, path, files.error());
    if (files->empty()) return mistake_at({{path}}, path, "holds no *.yaml, *.yml or *.json");
    for (const std::string& file : *files) read(file);
  }

  std::expected<Model, Mistakes> model() && {
    sort_by_place(mistakes_, order_);
    sort_by_place(model_.warnings, order_);
    if (!mistakes_.empty()) return std::unexpected(std::move(mistakes_));
    return std::move(model_);
  }

 private:
  struct Opened {
    Reading reading;
    Node root;
  };

  // Nothing if it cannot be read, or has been.
  std::optional<Opened> open(const std::string& file, const Mistake& at) {
    return open(file, at, read_file(file));
  }
  std::optional<Opened> open(const std::string& file, const Mistake& at,
                             std::expected<FileText, std::string> read) {
    order_.try_emplace(at.place.file, order_.size());
    order_.try_emplace(file, order_.size());
    if (!read) {
      mistake_at(at, file, read.error());
      return {};
    }
    if (!seen_.insert(read->id).second) return {};
    Opened opened{{.file = file, .mode = read->mode, .claims = claims_}, {}};
    auto root = parse(opened.reading, read->text);
    if (!root) {
      finish(opened);
      return {};
    }
    opened.root = *std::move(root);
    return opened;
  }

  void main_file(Opened& opened) {
    MainFile main = read_main(opened.reading, opened.root);
    finish(opened);
    model_.main = std::move(main.config);
    std::ranges::move(main.providers, std::back_inserter(model_.providers));
    for (const auto& [path, at] : main.named) {
      is_directory(path) ? provider_dir(path, at) : provider_file(path, at);
    }
  }

  void provider_file(Opened& opened) {
    model_.providers.push_back(read_provider(opened.reading, opened.root));
    finish(opened);
  }

  void source_file(Opened& opened) {
    const auto add = [&](const Node& node) {
      model_.sources.push_back(read_source(opened.reading, node, {}));
    };
    if (opened.root.kind == Node::Kind::kList) {
      if (opened.root.items.empty()) opened.reading.mistake(opened.root, {}, "holds no source");
      std::ranges::for_each(opened.root.items, add);
    } else {
      add(opened.root);
    }
    finish(opened);
  }

  void finish(Opened& opened) {
    std::ranges::move(opened.reading.mistakes, std::back_inserter(mistakes_));
    std::ranges::move(opened.reading.warnings, std::back_inserter(model_.warnings));
  }

  void mistake_at(Mistake at, const std::string& file, const std::string& why) {
    order_.try_emplace(at.place.file, order_.size());
    at.message = at.place.file == file ? why : fmt::format("{} {}", file, why);
    mistakes_.push_back(std::move(at));
  }

  Claims claims_;
  Model model_;
  Mistakes mistakes_;
  std::string main_;
  Order order_;
  std::set<FileText::Id> seen_;
};

}  // namespace

std::expected<Model, Mistakes> load(const ConfigFiles& files) {
  Loader loader;
  if (!files.main_file.empty()) loader.main_file(files.main_file);
  for (const auto& file : files.provider_files) loader.provider_file(file, {{file}});
  for (const auto& folder : files.provider_dirs) loader.provider_dir(folder, {{folder}});
  return std::move(loader).model();
}

std::expected<Model, Mistakes> load_files(const std::vector<std::string>& files) {
  Loader loader;
  for (const auto& path : files) {
    loader.each_file(path, [&](const std::string& file) { loader.any_file(file); });
  }
  return std::move(loader).model();
}

std::expected<std::vector<SourceConfig>, Mistakes> load_sources(
    const std::vector<std::string>& files) {
  Loader loader;
  for (const auto& path : files) {
    loader.each_file(path, [&](const std::string& file) { loader.source_file(file); });
  }
  auto model = std::move(loader).model();
  if (!model) return std::unexpected(std::move(model.error()));
  return std::move(model->sources);
}

std::expected<ProviderConfig, Mistakes> parse_provider(std::string_view text, std::string file) {
  return parse_text(text, std::move(file), read_provider);
}

std::expected<Model, Mistakes> parse_main(std::string_view text, std::string file) {
  return parse_text(text, std::move(file), [](Reading& reading, const Node& root) {
    MainFile main = read_main(reading, root);
    return Model{std::move(main.config), std::move(main.providers), std::move(reading.warnings)};
  });
}

std::expected<std::vector<LimitConfig>, Mistakes> parse_limits(std::string_view text,
                                                               std::string file) {
  return parse_text(text, std::move(file), [](Reading& reading, const Node& root) {
    auto fields = Fields::of(reading, root);
    if (!fields) return std::vector<LimitConfig>{};
    auto limits = read_limits(*fields);
    fields->finish();
    return limits;
  });
}

std::expected<SourceConfig, Mistakes> parse_source(std::string_view text, std::string file,
                                                   std::string_view name) {
  return parse_text(text, std::move(file), [name](Reading& reading, const Node& root) {
    return read_source(reading, root, name);
  });
}

}  // namespace weir
