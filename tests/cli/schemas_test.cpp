// The schemas against the program. Input formats: every key and every name that a reader takes is in the
// schema at that place, and the reverse. Output formats: what is written has the keys of the schema, all of
// them.

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/compressor_costs.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "core/model/model.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/scenarios/scenario.hpp"
#include "planner/sweep/axes.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/program.hpp"
#include "validate/measurements/measurements.hpp"
#include "validate/paper/quantities.hpp"
#include "validate/paper/read_paper.hpp"
#include "validate/suite/suite.hpp"

namespace {

using core::Field;
using nlohmann::json;
using Pointer = json::json_pointer;
using Words = std::set<std::string>;

// ---- what is compared

struct Format {
  std::string name;
  std::function<void(const Field&)> read;
};

void read_scenario_and_sweep(const Field& field) {
  (void)scenarios::read_scenario(field, true);
  if (const auto axes = field.find("sweep")) (void)sweep::read_axes(*axes);
}

/// Drawn gradients are read when a figure is measured.
void read_paper_and_gradients(const Field& field) {
  const validate::Paper paper = validate::load_paper(field.source());
  for (const validate::Figure& figure : paper.figures)
    if (paper.name == "every-key" && figure.quantity.find("gradients"))
      (void)validate::measure(paper, figure);
}

const std::vector<Format>& input_formats() {
  static const std::vector<Format> all = {
      {"profile", [](const Field& field) { (void)core::read_profile(field); }},
      {"network", [](const Field& field) { (void)core::read_network(field); }},
      {"compressors", [](const Field& field) { (void)core::read_compressor_costs(field); }},
      {"model", [](const Field& field) { (void)core::read_model(field); }},
      {"plan", [](const Field& field) { (void)planner::read_plan_file(field); }},
      {"scenario", read_scenario_and_sweep},
      {"setup", [](const Field& field) { (void)validate::read_setup(field); }},
      {"paper", read_paper_and_gradients},
      {"suite", [](const Field& field) { (void)suite::read_suite(field); }},
  };
  return all;
}

const json& schema(const std::string& name) {
  static std::map<std::string, json> known;
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, support::schema(name)).first->second;
}

std::string format_of(const json& document) {
  const std::string format = document.at("format").get<std::string>();
  return format.substr(format.find('.') + 1);
}

/// The files of input formats that the tests have, by format.
std::map<std::string, std::vector<std::filesystem::path>> documents() {
  std::map<std::string, std::vector<std::filesystem::path>> out;
  for (const std::string folder : {"models", "traces", "scenarios", "validate/papers",
                                   "validate/measurements", "tests/golden", "tests/data/schemas"}) {
    for (const auto& entry : std::filesystem::directory_iterator(support::source_dir() / folder)) {
      if (entry.path().extension() != ".json") continue;
      const json document = json::parse(core::read_file(entry.path()));
      if (!document.is_object() || !document.contains("format")) continue;
      out[format_of(document)].push_back(entry.path());
    }
  }
  return out;
}

/// A part of a schema by a name that is the same in every schema that contains it.
std::string canonical(const std::string& format, const Pointer& node) {
  const std::string text = node.to_string();
  constexpr std::string_view kDefinitions = "/$defs/";
  if (!text.starts_with(kDefinitions)) return format + ":" + text;
  const std::size_t end = std::min(text.find('/', kDefinitions.size()), text.size());
  return text.substr(kDefinitions.size(), end - kDefinitions.size()) + ":" + text.substr(end);
}

/// The words of one set that are not in the other, between commas.
std::string extra(const Words& all, const Words& known) {
  Words out;
  std::ranges::set_difference(all, known, std::inserter(out, out.end()));
  return fmt::format("{}", fmt::join(out, ", "));
}

/// What schemas say, by canonical name.
support::SchemaParts parts_of(const std::vector<std::string>& formats) {
  support::SchemaParts out;
  for (const std::string& format : formats) {
    const support::SchemaParts parts = support::schema_parts(schema(format));
    for (const auto& [part, keys] : parts.keys) out.keys.emplace(canonical(format, Pointer(part)), keys);
    for (const auto& [part, names] : parts.names) out.names.emplace(canonical(format, Pointer(part)), names);
  }
  return out;
}

// ---- input formats

/// What readers ask of one value.
struct Asked {
  std::optional<Words> allowed;  ///< keys
  Words keys;                    ///< that were looked for
  Words choices;
};

class Recorder : public core::FieldObserver {
 public:
  ~Recorder() override { core::observe_fields(nullptr); }

  void on_allowed_keys(const Field& object, std::span<const std::string_view> keys) override {
    std::optional<Words>& allowed = at(object).allowed;
    if (!allowed) allowed.emplace();
    allowed->insert(keys.begin(), keys.end());
  }
  void on_key(const Field& object, std::string_view key) override { at(object).keys.emplace(key); }
  void on_choices(const Field& text, std::span<const std::string_view> choices) override {
    at(text).choices.insert(choices.begin(), choices.end());
  }

  using ByPlace = std::map<std::string, Asked>;
  const std::map<std::string, ByPlace>& by_source() const { return by_source_; }

 private:
  Asked& at(const Field& field) { return by_source_[field.source()][field.pointer()]; }

  std::map<std::string, ByPlace> by_source_;
};

/// What the parts of schemas are about, by canonical name.
struct Met {
  std::map<std::string, Words> allowed;
  std::map<std::string, Words> looked_for;
  std::map<std::string, Words> choices;
  std::set<std::pair<std::vector<std::string>, std::string>> refused;  ///< names that a schema leaves out
};

/// What schemas say of one value.
struct Said {
  std::vector<std::string> objects;  ///< parts that apply and have "properties"
  Words keys;                        ///< of those
  bool is_closed = false;            ///< has no others
  bool is_free = false;              ///< an object of which no key is said
  std::vector<std::string> enumerations;
  Words names;
};

std::map<std::string, Said> said_of(const std::string& format, const json& document) {
  std::map<std::string, Said> out;
  support::walk_schema(schema(format), document, [&](const support::SchemaMatch& match) {
    Said& said = out[match.place.empty() ? "/" : match.place.to_string()];
    const std::string part = canonical(format, match.node);
    if (match.applies && match.value.is_object() && match.schema.contains("properties")) {
      said.objects.push_back(part);
      said.keys.merge(support::keys_of(match.schema.at("properties")));
      said.is_closed =
          said.is_closed || match.schema.value("additionalProperties", json(true)) == json(false);
    }
    if (match.applies && !match.schema.contains("properties"))
      said.is_free = said.is_free || match.schema.value("type", json()) == "object";
    if (const Words names = support::enumerated_names(match.schema); !names.empty()) {
      said.enumerations.push_back(part);
      said.names.insert(names.begin(), names.end());
    }
  });
  return out;
}

/// Names that a file gives itself, and those of a quantity's keys, which mean what its kind says.
bool is_free_name(const std::string& place) {
  for (const std::string_view end : {"/block", "/score", "/like", "/quantity/collective", "/quantity/per"})
    if (place.ends_with(end)) return true;
  return place.find("/calibrated_on/") != std::string::npos;
}

/// Whether the reader refuses the document with that name at that place.
bool refuses(const std::string& format, const std::string& source, json document, const std::string& place,
             const std::string& name) {
  document[Pointer(place)] = name;
  const auto reader = std::ranges::find(input_formats(), format, &Format::name);
  try {
    reader->read(Field::parse(document.dump(), source));
  } catch (const core::InputError&) {
    return true;
  }
  return false;
}

/// Everything that was asked for in a file is in the schema.
void compare(const std::string& source, const json& document, const Recorder::ByPlace& asked, Met& met) {
  const std::string format = format_of(document);
  const std::map<std::string, Said> all = said_of(format, document);
  for (const auto& [place, reader] : asked) {
    const auto& the_place = place;  // clang 14 cannot capture a structured binding
    CAPTURE(the_place);
    const auto found = all.find(place);
    const Said said = found == all.end() ? Said() : found->second;
    if (reader.allowed) {
      CHECK_MESSAGE((said.is_free || !said.objects.empty()), "the schema says nothing of this object");
      if (said.is_closed) CHECK(extra(*reader.allowed, said.keys) == "");
    } else if (said.is_closed) {
      CHECK(extra(reader.keys, said.keys) == "");
    }
    if (!is_free_name(place))
      for (const std::string& name : reader.choices) {
        if (said.names.contains(name) || !met.refused.emplace(said.enumerations, name).second) continue;
        CHECK_MESSAGE(refuses(format, source, document, place, name), name);
      }
    for (const std::string& part : said.objects) {
      if (reader.allowed) met.allowed[part].insert(reader.allowed->begin(), reader.allowed->end());
      met.looked_for[part].insert(reader.keys.begin(), reader.keys.end());
    }
    for (const std::string& part : said.enumerations)
      met.choices[part].insert(reader.choices.begin(), reader.choices.end());
  }
}

TEST_CASE("schema: readers take what the schemas say, key by key and name by name") {
  Recorder recorder;
  core::observe_fields(&recorder);
  std::map<std::string, std::vector<std::filesystem::path>> files = documents();
  std::vector<std::string> formats;
  for (const Format& format : input_formats()) {
    formats.push_back(format.name);
    for (const std::filesystem::path& file : files[format.name]) {
      CAPTURE(file.string());
      CHECK(support::schema_fault(schema(format.name), json::parse(core::read_file(file))) == "");
      REQUIRE_NOTHROW(format.read(Field::load(file)));
    }
  }

  core::observe_fields(nullptr);

  Met met;
  for (const auto& [source, asked] : recorder.by_source()) {
    if (!std::filesystem::is_regular_file(source)) continue;  // what the program has written into itself
    const auto& the_source = source;                          // clang 14 cannot capture a structured binding
    CAPTURE(the_source);
    compare(source, json::parse(core::read_file(source)), asked, met);
  }

  const support::SchemaParts all = parts_of(formats);
  for (const auto& [part, keys] : all.keys) {
    const auto& the_part = part;  // clang 14 cannot capture a structured binding
    CAPTURE(the_part);
    CHECK_MESSAGE(met.looked_for.contains(part), "no test document reaches this object");
    CHECK(extra(keys, met.looked_for[part]) == "");
    if (met.allowed.contains(part)) CHECK(extra(keys, met.allowed[part]) == "");
  }
  for (const auto& [part, names] : all.names) {
    const auto& the_part = part;  // clang 14 cannot capture a structured binding
    CAPTURE(the_part);
    CHECK(extra(names, met.choices[part]) == "");
  }
}

// ---- output formats

json output_of(const std::vector<std::string>& arguments, int exit_code = 0) {
  const support::Outcome outcome = support::run_program(arguments);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == exit_code);
  return json::parse(outcome.out);
}

/// Parses one JSON document per line.
std::vector<json> lines_of(const std::string& text) {
  std::vector<json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(json::parse(line));
  return out;
}

/// The documents are as the schema says, and together they have every key and name of it but `unreached`.
void check_output(const std::string& format, const std::vector<json>& documents,
                  const Words& unreached = {}) {
  CAPTURE(format);
  for (const json& document : documents) CHECK(support::schema_fault(schema(format), document) == "");
  const Words unused = support::unused_parts(format, documents);
  CHECK(extra(unused, unreached) == "");
  CHECK(extra(unreached, unused) == "");
}

TEST_CASE("schema: what the program prints is as the schemas say, and has every key and name of theirs") {
  const std::string steps = "tests/data/schemas/scenario-steps.json";
  std::vector<json> results;
  const std::map<std::string, std::vector<std::filesystem::path>> files = documents();
  for (const std::filesystem::path& file : files.at("results"))
    results.push_back(json::parse(core::read_file(file)));
  results.push_back(output_of({"simulate", steps, "--json", "--what-if", "bandwidth=2"}));
  results.push_back(output_of({"simulate", "tests/data/schemas/scenario-parallel.json", "--json"}));
  check_output("results", results);

  const std::filesystem::path golden = support::source_dir() / "tests" / "golden";
  std::vector<json> rows = lines_of(core::read_file(golden / "resnet50-v100-sweep.sweep.jsonl"));
  for (const std::string& swept : {steps, std::string("tests/data/schemas/scenario-stages.json")})
    for (const json& row : lines_of(support::run_program({"sweep", swept, "--json-lines"}).out))
      rows.push_back(row);
  check_output("sweep", rows, {": interval"});  // sweeps make no intervals

  // the bundled scenario's compressors pay at all bandwidths or below one
  check_output("consideration", {json::parse(core::read_file(golden / "consider.json"))},
               {"/properties/break_even/items/properties/pays: above",
                "/properties/break_even/items/properties/pays: between",
                "/properties/break_even/items/properties/pays: never"});

  // the stages of this scenario have a part of the model each
  check_output("stage-plans", {output_of({"plan", "tests/data/schemas/scenario-parallel.json", "--json"})},
               {"/properties/parts/items: part"});
  check_output("stage-explanation",
               {output_of({"plan", "tests/data/schemas/scenario-parallel.json", "--explain", "--json"}),
                output_of({"plan", "tests/data/schemas/scenario-interleaved.json", "--schedule", "wfbp",
                           "--explain", "--json"})});
  // a Horovod cycle and one worker, collectives of several kinds
  check_output("explanation",
               {output_of({"plan", "googlenet-k80", "--workers", "16", "--explain", "--json"}),
                output_of({"plan", "googlenet-k80", "--workers", "1", "--explain", "--json"}),
                output_of({"plan", "googlenet-k80", "--workers", "16", "--schedule", "horovod", "--explain",
                           "--json"}),
                output_of({"plan", "resnet50-v100-nodes", "--workers", "16", "--schedule", "hsdp",
                           "--explain", "--json"})},
               {"/properties/groups/items/properties/waited_for: scatters",   // with several channels
                "/properties/groups/items/properties/waited_for: workers"});  // with jitter
  check_output("memory-front",
               {output_of({"plan", "tests/data/schemas/scenario-sharded.json", "--schedule", "fsdp2",
                           "--memory-front", "--json"})},
               {"/properties/plans/items/properties/units: blocks",
                "/properties/plans/items/properties/units: tensors", "/properties/plans/items: shard_level",
                "/properties/plans/items: shard_workers"});

  const std::string logs = "tests/data/b-caffe/allreduce";
  // numbers of workers are left out in parts only where there are hundreds of them
  check_output("fit",
               {output_of({"fit", logs + "2.log", logs + "4.log", logs + "8.log", "--predict-workers", "16",
                           "--json"}),
                output_of({"fit", "tests/data/schemas/collectives.csv", "--json"})},
               {"/properties/links/items/properties/leave_one_out: parts"});

  // the bundled table has one network, and one number of workers above 1
  const std::vector<std::string> calibrate = {"calibrate", "validate/measurements/commlib-table-3.csv",
                                              "--setup", "validate/measurements/commlib.setup.json",
                                              "--json"};
  std::vector<std::string> on_some = calibrate;
  on_some.insert(on_some.end(), {"--calibrate-on", "workers=1", "--calibrate-on", "schedule=2dtar-sgd"});
  check_output("calibration", {output_of(calibrate), output_of(on_some)},
               {"/properties/cross_validation/items/properties/left_out: network",
                "/properties/cross_validation/items/properties/left_out: workers"});

  const std::string job = "tests/data/ranks/dlrm";
  // the traces of this job have no sequence numbers
  check_output("ranks", {output_of({"import", job, "--json"})},
               {"/properties/groups/items/properties/calls/items: sequence"});
  check_output("buckets", {output_of({"import", "tests/data/ranks/resnet-2gpu-et.json.gz", "--json"})});
  check_output(
      "comparison",
      {output_of({"compare", job, "--plan", "scenarios/googlenet-k80.json", "--schedule", "zero", "--json"}),
       output_of({"compare", job, job, "--json"})});

  // no input of the test's paper is calibrated; docs/reproduction.md, which is compared with the program, has
  // some
  check_output("reproduction", {output_of({"validate", "tests/data/schemas/paper.json", "--json"}, 3)},
               {"/properties/papers/items/properties/figures/items/properties/verdict: calibrated"});
}

TEST_CASE("schema: every format is compared with what reads or writes it") {
  // predictions, live-validation and accuracy are written by live runs, whose own tests compare them
  Words compared = {"results",      "sweep",        "consideration", "fit",
                    "calibration",  "reproduction", "predictions",   "live-validation",
                    "accuracy",     "ranks",        "buckets",       "comparison",
                    "memory-front", "stage-plans",  "explanation",   "stage-explanation"};
  for (const Format& format : input_formats()) compared.insert(format.name);
  Words all;
  for (const auto& file : std::filesystem::directory_iterator(support::source_dir() / "docs" / "schemas")) {
    if (file.path().extension() != ".json") continue;
    const std::string name = file.path().stem().stem().extension().string().substr(1);
    if (name != "definitions") all.insert(name);
  }
  CHECK(extra(all, compared) == "");
  CHECK(extra(compared, all) == "");
}

}  // namespace
