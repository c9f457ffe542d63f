// SPDX-License-Identifier: Apache-2.0
// new_plugin.cpp: `tenon new-plugin NAME`: a plugin of one's own that builds and passes level 0 before a line is written.
//
// Invariant: nothing that exists is overwritten; a scaffold is written whole or, when a write fails, removed.
#include "command.hpp"
#include "places.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

namespace tenon::tool {

namespace fs = std::filesystem;

namespace {

struct NewPluginRequest {
  std::string name{}, folder{}, vendor = "Unknown vendor";
};

using Words = std::vector<std::pair<std::string, std::string>>;

// As tenon_add_plugin() and tn_error.domain want it.
Status check_name(const std::string& name) {
  constexpr size_t longest = 19;
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!name.empty() && name.size() <= longest && letters && name[0] >= 'a' && name[0] <= 'z') return {};
  return Status(TN_INVALID, "'" + name +
                                "' cannot name a plugin: use 1 to 19 lower-case letters, digits and _, the "
                                "first of them a letter");
}

Status check_vendor(const std::string& vendor) {
  const bool plain = std::none_of(vendor.begin(), vendor.end(), [](char c) {
    return c == '"' || c == '\\' || c == '$' || c == ';' || static_cast<unsigned char>(c) < 0x20;
  });
  if (!vendor.empty() && plain) return {};
  return Status(TN_INVALID,
                "--vendor takes a name without quotes, backslashes, dollars, semicolons and line ends");
}

std::string replaced(std::string text, const Words& words) {
  for (const auto& [from, to] : words) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

Status copy_file(const fs::path& from, const fs::path& to, const Words& words) {
  std::ifstream in(from, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::ofstream out(to, std::ios::binary);
  out << replaced(text, words);
  out.close();
  if (!in.bad() && out) {
    std::error_code ignored;
    fs::permissions(to, fs::status(from, ignored).permissions(), ignored);
    return {};
  }
  return Status(TN_INTERNAL, "'" + to.string() + "' cannot be written");
}

Status copy_tree(const fs::path& from, const fs::path& to, const Words& words) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return Status(TN_INTERNAL, "'" + to.string() + "' cannot be made: " + error.message());
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const fs::path target = to / replaced(entry.path().filename(), words);
    if (entry.is_directory(error)) {
      TN_TRY(copy_tree(entry.path(), target, words));
    } else {
      TN_TRY(copy_file(entry.path(), target, words));
    }
  }
  return error ? Status(TN_INTERNAL, "'" + from.string() + "' cannot be read: " + error.message()) : Status();
}

std::string next_steps(const std::string& folder, const std::string& name) {
  return "Wrote " + folder + ". Next:\n\n" + "  cmake -S " + folder + " -B " + folder +
         "/build -DCMAKE_PREFIX_PATH=" + fs::path(executable()).parent_path().parent_path().string() + "\n" +
         "  cmake --build " + folder + "/build\n" + "  tenon conform " + folder + "/build/tenon-" + name +
         ".so --level 0\n";
}

Status scaffold(const NewPluginRequest& asked) {
  TN_TRY(check_name(asked.name));
  TN_TRY(check_vendor(asked.vendor));
  const fs::path from = TN_TRY(template_folder());
  const fs::path to = asked.folder.empty() ? fs::path(asked.name) : fs::path(asked.folder);
  std::error_code ignored;
  if (fs::exists(to, ignored)) {
    return Status(TN_INVALID,
                  "'" + to.string() + "' exists: choose another name, or another folder with --dir");
  }
  const Status copied = copy_tree(from, to, {{"@NAME@", asked.name}, {"@VENDOR@", asked.vendor}});
  if (!copied.ok()) {
    fs::remove_all(to, ignored);
    return Status(copied.error());
  }
  std::fputs(next_steps(to.string(), asked.name).c_str(), stdout);
  return {};
}

int run_new_plugin(const NewPluginRequest& asked) {
  if (asked.name.empty()) return usage_error("new-plugin needs a name. See `tenon new-plugin --help`.");
  const Status said = scaffold(asked);
  return said.ok() ? exit_good : usage_error(std::string(said.message()));
}

}  // namespace

Command add_new_plugin(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand("new-plugin", "Starts a plugin of your own, outside this tree");
  const auto asked = std::make_shared<NewPluginRequest>();
  app->add_option("NAME", asked->name, "What it is called: lower-case letters, digits and _");
  app->add_option("--dir,DIR", asked->folder, "The folder to make (NAME, here)")->type_name("DIR");
  app->add_option("--vendor", asked->vendor, "Who makes it")->type_name("V");
  return {app, [asked] { return run_new_plugin(*asked); }};
}

}  // namespace tenon::tool
