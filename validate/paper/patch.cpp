#include "validate/paper/patch.hpp"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"

namespace validate {
namespace {

using core::Field;
using nlohmann::json;

/// A scenario that is like another one is a copy of it.
constexpr std::size_t kMaxBytesInAll = std::size_t{16} << 20U;

/// A scenario before it is read, and the file to which its paths are relative.
struct Source {
  json value;
  std::string file;
};

/// Returns the JSON value at a Field of the paper.
json value_at(const json& paper, const Field& field) { return paper.at(json::json_pointer(field.pointer())); }

Source own(const Field& scenario, const json& paper) {
  const Field file = scenario.follow();  // rejects a file that is not JSON
  if (scenario.is_object()) return {.value = value_at(paper, scenario), .file = scenario.source()};
  return {.value = json::parse(core::read_file(scenario.path())), .file = file.source()};
}

[[noreturn]] void refuse(const Field& like, const std::vector<NamedScenario>& earlier) {
  std::vector<std::string_view> names;
  for (const NamedScenario& each : earlier) names.push_back(each.name);
  (void)like.one_of(names);
  like.expected("the name of an earlier scenario");
}

}  // namespace

std::vector<NamedScenario> read_scenarios(const Field& list, std::string_view paper_text) {
  const json paper = json::parse(paper_text);
  std::vector<NamedScenario> out;
  std::vector<Source> sources;
  std::unordered_map<std::string, std::size_t> by_name;
  std::size_t bytes = 0;
  for (const Field& item : list.items()) {
    item.allow_only({"name", "scenario", "like", "patch"});
    const std::optional<Field> like = item.find("like");
    const std::optional<Field> scenario = item.find("scenario");
    if (like && scenario) like->expected("scenario or like", "both");
    const std::string name = item.at("name").name();
    Source source;
    if (like) {
      const auto base = like->is_text() ? by_name.find(like->text()) : by_name.end();
      if (base == by_name.end()) refuse(*like, out);
      source = sources[base->second];
    } else {
      source = own(item.at("scenario"), paper);
    }
    if (const auto patch = item.find("patch")) {
      if (!patch->is_object()) patch->expected("an object");
      source.value.merge_patch(value_at(paper, *patch));
    }
    const std::string text = source.value.dump();
    bytes += text.size();
    if (bytes > kMaxBytesInAll)
      item.expected(fmt::format("scenarios of at most {} MiB in all", kMaxBytesInAll >> 20U), "more");
    by_name.insert_or_assign(name, out.size());
    out.push_back({.name = name, .file = Field::parse(text, source.file), .at = item});
    sources.push_back(std::move(source));
  }
  return out;
}

}  // namespace validate
