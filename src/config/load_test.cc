// Whole configurations from real files in a temporary folder.
#include "config/load.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/file.h"
#include "config/texts_for_test.h"

namespace weir {
namespace {

class LoadTest : public testing::Test {
 protected:
  LoadTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weir-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~LoadTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string write(const std::string& name, std::string_view text, mode_t mode = 0600) {
    std::filesystem::create_directories(std::filesystem::path{path(name)}.parent_path());
    std::ofstream{path(name), std::ios::binary} << text;
    ::chmod(path(name).c_str(), mode);
    return path(name);
  }

  // One line for each mistake or warning, without the folder.
  std::string lines(const Mistakes& mistakes) const {
    std::string text;
    for (const auto& mistake : mistakes) text += mistake.text() + "\n";
    const std::string prefix = folder_.string() + "/";
    for (std::size_t at = 0; (at = text.find(prefix)) != text.npos;) text.erase(at, prefix.size());
    return text;
  }
  std::string lines(const std::expected<Model, Mistakes>& model) const {
    return model ? "" : lines(model.error());
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(LoadTest, FilesAndFoldersMayBeMixedAndRepeated) {  // S4.2
  write("conf.d/b.yaml", kSeedYahoo);
  write("conf.d/a.yml", kSeedFmp);
  write("conf.d/c.json", R"({"domain": "c.com"})");
  write("conf.d/notes.txt", "not: ours");
  write("conf.d/.b.yaml.swp.yaml", "[");
  write("other/d.yaml", "domain: d.com");
  const auto model =
      load({.provider_files = {write("x.yaml", kSeedAlphavantage), path("conf.d/b.yaml")},
            .provider_dirs = {path("conf.d"), path("other/")}});
  ASSERT_TRUE(model) << lines(model);
  std::vector<std::string> names;
  for (const auto& provider : model->providers) names.push_back(provider.name);
  EXPECT_EQ(names, (std::vector<std::string>{"alphavantage.co", "finance.yahoo.com",
                                             "financialmodelingprep.com", "c.com", "d.com"}));
}

TEST_F(LoadTest, TheMainFileNamesProvidersRelativeToItself) {
  write("etc/anthropic.yaml", kProviderExample);
  write("etc/conf.d/fmp.yaml", kSeedFmp);
  write("etc/agents.token", "0123456789abcdef\n");
  std::string text{kMainExample};
  const std::string variable = "token_env: WEIR_CONFIG_TEST_TOKEN";
  text.replace(text.find(variable), variable.size(), "token_file: agents.token");
  const auto model = load({.main_file = write("etc/weir.yaml", text)});
  ASSERT_TRUE(model) << lines(model);
  EXPECT_EQ(model->providers.size(), 2U);
  EXPECT_EQ(model->main.tokens[0].token.reveal(), "0123456789abcdef");
  EXPECT_TRUE(model->warnings.empty()) << lines(model->warnings);
}

TEST_F(LoadTest, TwoProvidersOfOneDomainAreAMistakeThatNamesBoth) {  // S4.2
  write("a.yaml", "domain: a.com\n");
  write("b.yaml", "name: b\n\ndomain: A.com.\n");
  EXPECT_EQ(lines(load({.provider_files = {path("a.yaml"), path("b.yaml")}})),
            "b.yaml:3:9: domain: a.com is taken by the provider in a.yaml:1:9\n");
}

TEST_F(LoadTest, TwoProvidersOfOneNameAreAMistakeThatNamesBoth) {  // S4.2
  write("a.yaml", "domain: a.com\nname: x\n");
  write("b.yaml", "domain: b.com\nname: x\n");
  write("c.yaml", "domain: c.com\nname: d.com\n");
  write("d.yaml", "domain: d.com\n");
  EXPECT_EQ(lines(load({.provider_dirs = {path("")}})),
            "b.yaml:2:7: name: x is taken by the provider in a.yaml:2:7\n"
            "d.yaml:1:9: name: d.com is taken by the provider in c.yaml:2:7\n");
  write("seed.json", kSeedJson);
  write("e.yaml", "domain: e.com\nname: openai\n");
  EXPECT_EQ(lines(load({.main_file = path("seed.json"), .provider_files = {path("e.yaml")}})),
            "e.yaml:2:7: name: openai is taken by the provider in seed.json:9:9\n");
}

TEST_F(LoadTest, EveryMistakeOfEveryFileIsToldAtOnce) {  // S4.1
  write("weir.yaml", "providers: [a.yaml, gone.yaml, b.yaml]\nlisten: 0.0.0.0:1\nsink: x\n");
  write("a.yaml", "limit: 0\nperiod: 5x\ndomain: a.com\n");
  write("b.yaml", "domain: a.com\nprofile: none\n");
  write("c.yaml", "domain: [\n");
  EXPECT_EQ(lines(load({.main_file = path("weir.yaml"), .provider_files = {path("c.yaml")}})),
            "weir.yaml:1:21: providers[1]: gone.yaml cannot be opened: No such file or directory\n"
            "weir.yaml:2:9: listen: listening on 0.0.0.0 without auth.tokens would let everybody "
            "in; add tokens, or listen on 127.0.0.1\n"
            "weir.yaml:3:1: sink: unknown key `sink`; did you mean `sync`?\n"
            "a.yaml:1:8: limit: must be a whole number from 1 to 1000000000000000: 0\n"
            "a.yaml:2:9: period: 5x is not a period; write 30s, 5m, 1h or 1d\n"
            "b.yaml:1:9: domain: a.com is taken by the provider in a.yaml:3:9\n"
            "b.yaml:2:10: profile: must be one of openai, anthropic, gemini, azure, bedrock, groq, "
            "mistral, generic: none\n"
            "c.yaml:2:1: not YAML: end of sequence flow not found\n");
}

TEST_F(LoadTest, ChecksFilesOfEitherKind) {
  write("a.yaml", "domain: a.com\n");
  write("weir.yaml", "providers: [a.yaml]\nlisten: 1\n");
  const auto model =
      load_files({path("a.yaml"), path("weir.yaml"), write("b.yaml", "domain: b.com")});
  ASSERT_TRUE(model) << lines(model);
  EXPECT_EQ(model->providers.size(), 2U);
  EXPECT_EQ(model->main.listen.port, 1);
  write("other.yaml", "listen: 2\n");
  EXPECT_NE(lines(load_files({path("weir.yaml"), path("other.yaml")}))
                .find("other.yaml:1:1: a second main file; the first is weir.yaml"),
            std::string::npos);
}

TEST_F(LoadTest, ChecksSourcesAndFoldersToo) {
  write("all/a.yaml", "domain: a.com\n");
  write("all/s.yaml", "name: s\nurl: https://a.com/x\n");
  const auto model = load_files({path("all")});
  ASSERT_TRUE(model) << lines(model);
  ASSERT_EQ(model->sources.size(), 1U);
  EXPECT_EQ(explain(model->sources[0]),
            "s (https://a.com/x)\n  a source: every 1m, time-out 30s, 1048576 bytes kept of it at "
            "most\n");
  EXPECT_EQ(model->providers.size(), 1U);
  EXPECT_EQ(lines(load_files({write("t.yaml", "name: t\nevery: 5x\n")})),
            "t.yaml:1:1: url: is missing\n"
            "t.yaml:2:8: every: 5x is not a period; write 30s, 5m, 1h or 1d\n");
}

TEST_F(LoadTest, SourcesStandInFilesFoldersAndLists) {
  write("all/b.json", R"({"name": "b", "url": "https://b.com"})");
  write("all/a.yaml", "name: a\nurl: https://a.com\n");
  write("all/notes.txt", "none");
  const std::string list =
      write("list.yaml", "- {name: c, url: https://c.com}\n- {name: d, url: https://d.com}\n");
  const auto sources = load_sources({path("all"), list, path("all/a.yaml")});
  ASSERT_TRUE(sources) << sources.error().front().text();
  std::string names;
  for (const SourceConfig& source : *sources) names += source.name;
  EXPECT_EQ(names, "abcd") << "and none twice";
  write("twice.yaml", "- {name: a, url: https://x.com}\n- {url: nowhere}\n");
  write("empty/none.txt", "");
  write("nothing.yaml", "[]");
  EXPECT_EQ(
      lines(load_sources({path("all"), path("twice.yaml"), path("empty"), path("nothing.yaml")})
                .error()),
      "twice.yaml:1:10: name: a is taken by the source in all/a.yaml:1:7\n"
      "twice.yaml:2:3: name: is missing\n"
      "twice.yaml:2:9: url: must begin with https:// or http://\n"
      "empty: holds no *.yaml, *.yml or *.json\n"
      "nothing.yaml:1:1: holds no source\n");
}

TEST_F(LoadTest, AFileWithASecretThatOthersMayReadIsRefused) {  // S4.7
  write("a.yaml", kSeedFmp, 0604);
  EXPECT_EQ(lines(load({.provider_files = {path("a.yaml")}})),
            "a.yaml:5:10: api_key: this file holds a secret and can be read by everybody; chmod "
            "600 it\n");
  write("weir.yaml", "auth: {tokens: [{name: a, scope: read, token: 0123456789abcdef}]}\n", 0644);
  EXPECT_NE(lines(load({.main_file = path("weir.yaml")})).find("everybody"), std::string::npos);
  for (const char* text : {"store: postgresql://u:p@h/db\n", "fleet: {redis: \"redis://:p@h\"}\n",
                           "store: postgresql://h/db?password=p\n"}) {
    write("url.yaml", text, 0644);
    EXPECT_NE(lines(load({.main_file = path("url.yaml")})).find("everybody"), std::string::npos);
  }
  write("url.yaml", "store: postgresql://u@h/db\n", 0644);
  EXPECT_TRUE(load({.main_file = path("url.yaml")}));
  EXPECT_TRUE(load({.provider_files = {write("b.yaml", kSeedYahoo, 0644)}}));
}

TEST_F(LoadTest, AFileWithASecretThatItsGroupMayReadIsWarnedAbout) {  // S4.7
  const auto model = load({.provider_files = {write("a.yaml", kSeedFmp, 0640)}});
  ASSERT_TRUE(model) << lines(model);
  EXPECT_EQ(lines(model->warnings),
            "a.yaml:5:10: api_key: this file holds a secret and can be read by its group; chmod "
            "600 it\n");
}

TEST_F(LoadTest, AKeyFileIsReadAndItsPermissionsChecked) {  // S4.7
  const std::string file = write("a.yaml", "domain: a.com\napi_key_file: key\n", 0644);
  const auto told = [&] { return lines(load({.provider_files = {file}})); };
  EXPECT_EQ(told(),
            "a.yaml:2:15: api_key_file: the file it names cannot be opened: No such file or "
            "directory\n");
  write("key", "sk-one\n");
  EXPECT_EQ(load({.provider_files = {file}})->providers[0].api_key.reveal(), "sk-one");
  write("key", "sk-one\r\n", 0640);
  EXPECT_EQ(load({.provider_files = {file}})->providers[0].api_key.reveal(), "sk-one");
  EXPECT_EQ(load({.provider_files = {file}})->warnings.size(), 1U);
  write("key", "sk-one\n", 0604);
  EXPECT_NE(told().find("the file it names can be read by everybody"), std::string::npos);
  write("key", "\n");
  EXPECT_NE(told().find("is empty"), std::string::npos);
  write("key", "sk-one\nsk-two\n");
  EXPECT_NE(told().find("one line"), std::string::npos);
  EXPECT_EQ(told().find("sk-"), std::string::npos);
}

TEST_F(LoadTest, OnlyRegularFilesAreReadAndNoneIsWaitedFor) {
  ASSERT_EQ(::mkfifo(path("pipe.yaml").c_str(), 0600), 0);
  std::filesystem::create_directories(path("folder.yaml"));
  write("big.yaml", std::string(1024 * 1024 + 1, '#'));
  write("key.yaml", "domain: a.com\napi_key_file: pipe.yaml\n");
  EXPECT_EQ(lines(load({.main_file = path("folder.yaml"),
                        .provider_files = {path("pipe.yaml"), path("gone.yaml"), path("big.yaml"),
                                           path("key.yaml")},
                        .provider_dirs = {path("nowhere")}})),
            "folder.yaml: is a directory\n"
            "pipe.yaml: is not a regular file\n"
            "gone.yaml: cannot be opened: No such file or directory\n"
            "big.yaml: is larger than 1 MiB\n"
            "key.yaml:2:15: api_key_file: the file it names is not a regular file\n"
            "nowhere: cannot be read: No such file or directory\n");
}

TEST_F(LoadTest, AFolderOfTooManyFilesIsRefused) {
  for (const char* name : {"c.yaml", "a.yml", "b.json", "d.txt"}) write(name, "");
  EXPECT_EQ(list_folder(path(""), 3).value(),
            (std::vector{path("a.yml"), path("b.json"), path("c.yaml")}));
  EXPECT_EQ(list_folder(path(""), 2).error(), "holds more than 2 files");
  EXPECT_EQ(kFilesMax, 10'000U);
}

}  // namespace
}  // namespace weir
