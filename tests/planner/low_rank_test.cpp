// PowerSGD in plans: what groups cost by the shapes of their tensors, whole timelines, and plans against all
// groupings.

#include <string>

#include <doctest/doctest.h>

#include "collectives/low_rank/power_sgd.hpp"
#include "core/errors.hpp"
#include "planner/choose/model_parts.hpp"
#include "planner/cost/low_rank.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using doctest::Approx;
using support::Expected;
using support::link_of;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Gives the tensors shapes, in forward order; each has to have as many elements.
core::Profile with_shapes(core::Profile profile, const Shapes& shapes) {
  auto shape = shapes.begin();
  for (core::ProfileLayer& layer : profile.layers)
    for (core::ProfileTensor& tensor : layer.tensors) tensor.shape = *shape++;
  return profile;
}

Compressor read(const std::string& json) { return read_compressor(core::Field::parse(json, "c.json")); }

constexpr const char* kCosts = R"("encode": {"startup_us": 1, "us_per_byte": 0.005},
  "in_transit": {"startup_us": 0.5}, "decode": {"us_per_byte": 0.005})";

std::string power_sgd(const std::string& keys = R"("rank": 1)") {
  return fmt::format(R"({{"name": "power-sgd", {}, {}}})", keys, kCosts);
}

std::string with(const std::string& compressor, const std::string& members) {
  return fmt::format(R"({{{}, "compression": {}}})", members, compressor);
}

// Forward 2 and 3 us, backward 5 and 4 us; on 2 workers an all-reduce takes 2 us and 0.1 us per byte.
//
//              tensor     bytes   P    Q   encode  transit  decode  all-reduces
//   l2.a       10 x 10      400   40   40    3       0.5      2           6 + 6
//   l1.b       10            40    sent as it is                      6
//   l1.a        4 x 10      160   16   40    1.8     0.5      0.8         3.6 + 6
core::Profile two_layers() {
  return with_shapes(profile_of({{2, 5, {40, 10}}, {3, 4, {100}}}), {{4, 5, 2}, {10}, {10, 10}});
}

void check(const std::string& members, const Expected& expected, const core::Profile& profile = two_layers(),
           const std::string& compressor = power_sgd()) {
  check_run(with(compressor, members), Scene(profile, pair_of(2, 0.1), 2, {.iterations = 1}), expected);
}

// ---- timelines

TEST_CASE("power-sgd: a group travels as what is sent as it is, P and Q, with the products between them") {
  // compute: F1 F2 B2 E1    B1   E2        D1                D2
  // channel:            [ P,  Q 1 ][ rest, P,  Q 2  ]
  check(R"("fusion": {"kind": "layers", "count": 1})",
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-12, B1 12-17, E2 17-18.8, D1 24.5-26.5, D2 40.6-41.4",
         "A1 12-24.5, A2 24.5-40.6", 41.4});
  // compute: F1 F2 B2 B1 E1             D1
  // channel:               [rest, P,  Q]
  check(R"("fusion": "all")",
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-18.8, D1 43.4-46.2", "A1 18.8-43.4", 46.2});
}

TEST_CASE("power-sgd: a group without a matrix that pays is neither encoded nor decoded") {
  // compute: F1 F2 B2 E1    B1  E3     D1                  D3
  // channel:            [ P, Q 1 ][ 2 ][ P, Q 3 ]
  check(R"("fusion": "none")",
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-12, B1 12-17, E3 17-18.8, D1 24.5-26.5, D3 40.6-41.4",
         "A1 12-24.5, A2 24.5-30.5, A3 30.5-40.6", 41.4});
  // At rank 2 no matrix of these pays: (4 + 10) 2 2 is not below 40, nor (10 + 10) 2 2.5 below 100.
  check(R"("fusion": "all")", {"F1 0-2, F2 2-5, B2 5-9, B1 9-14", "A1 14-76", 76}, two_layers(),
        power_sgd(R"("rank": 2, "min_compression_rate": 2.5)"));
}

TEST_CASE("power-sgd: selective groups are compressed where they arrive sooner") {
  // l2.a: 3 + 12.5 + 2 us, against 42; l1.a: 1.8 + 10.1 + 0.8 against 18; both with l1.b
  check(R"("fusion": "none", "selective": true)",
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-12, B1 12-17, E3 17-18.8, D1 24.5-26.5, D3 40.6-41.4",
         "A1 12-24.5, A2 24.5-30.5, A3 30.5-40.6", 41.4});
  // With a startup of 20 us the 160 bytes of l1.a are sooner as they are: 36 us against 46.1 and coding.
  const Scene scene(two_layers(), pair_of(20, 0.1), 2);
  const auto costs =
      make_transfers(scene.setting, schedule_of(with(power_sgd(), R"("fusion": "none", "selective": true)")));
  CHECK_FALSE(costs.front().is_encoded(payload_between(scene.setting.workload, 2, 3)));
}

// ---- costs

TEST_CASE("power-sgd: what is sent is counted by shape, as the collective sends it") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<support::LayerSpec> layers;
    Shapes shapes;
    std::vector<low_rank::Matrix> matrices;  // in backward order
    for (std::uint32_t i = 1 + random.below(6); i-- > 0;) {
      std::vector<std::int64_t> shape = {random.between(1, 40)};
      for (std::uint32_t more = random.below(3); more-- > 0;) shape.push_back(random.between(1, 12));
      std::int64_t columns = 1;
      for (std::size_t d = 1; d < shape.size(); ++d) columns *= shape[d];
      layers.push_back({.forward_us = 1, .backward_us = 1, .elements = {shape.front() * columns}});
      matrices.insert(matrices.begin(),
                      {static_cast<std::size_t>(shape.front()), static_cast<std::size_t>(columns)});
      shapes.push_back(std::move(shape));
    }
    const std::int64_t rank = random.between(1, 5);
    const double rate = support::eighths(random, 32);
    const Scene scene(with_shapes(profile_of(layers), shapes), pair_of(1, 0.5), 2);
    const Workload& workload = scene.setting.workload;
    const TransferCost cost = cost_of(scene.setting, {.compressor = low_rank_compressor({rank, rate})});
    const low_rank::PowerSgdOptions options = {.rank = static_cast<std::size_t>(rank),
                                               .min_compression_rate = rate};
    for (std::uint32_t begin = 0; begin < matrices.size(); ++begin)
      for (std::uint32_t end = begin + 1; end <= matrices.size(); ++end) {
        const std::span<const low_rank::Matrix> group(matrices.data() + begin, end - begin);
        low_rank::PowerSgd sent(group, options);
        const Payload payload = payload_between(workload, begin, end);
        CHECK(cost.message_bytes(CollectiveKind::all_reduce, payload) ==
              4 * static_cast<double>(sent.sent_elements()));
        CHECK(cost.sent_bytes(CollectiveKind::all_reduce, payload) ==
              4 * static_cast<double>(sent.sent_elements()));
        CHECK(cost.is_encoded(payload) == !sent.q().empty());
        const std::vector<double> messages = cost.messages(CollectiveKind::all_reduce, payload);
        if (!sent.q().empty()) CHECK(messages.back() == 4 * static_cast<double>(sent.q().size()));
        double us = 0;
        for (const double bytes : messages) us += 1 + 0.5 * bytes;
        for (const low_rank::Matrix& matrix : group)
          if (low_rank::is_approximated(matrix, options))
            us += cost.transfer().compressor.in_transit.us(4 * static_cast<double>(matrix.elements()));
        CHECK(cost.us(CollectiveKind::all_reduce, payload) == Approx(us));
        CHECK(cost.max_us(CollectiveKind::all_reduce, payload_of_all(workload)) >=
              cost.us(CollectiveKind::all_reduce, payload));
      }
    double in_groups = 0;
    std::size_t groups = 0;
    for (std::uint32_t begin = 0; begin < matrices.size(); ++groups) {
      const auto end = static_cast<std::uint32_t>(random.between(begin + 1, std::ssize(matrices)));
      const Payload payload = payload_between(workload, begin, end);
      in_groups +=
          cost.encode_us(payload) + cost.us(CollectiveKind::all_reduce, payload) + cost.decode_us(payload);
      begin = end;
    }
    CHECK(in_groups <=
          cost.max_in_groups_us(CollectiveKind::all_reduce, payload_of_all(workload), groups) * (1 + 1e-12));
  }
}

TEST_CASE("power-sgd: usual costs grow with the rank, by the launches and passes of PyTorch's hook") {
  const Compressor one = read(R"("power-sgd")");
  CHECK(one == low_rank_compressor({.rank = 1, .min_compression_rate = 2}));
  CHECK(one.encode.startup_us == 15);
  CHECK(one.in_transit.startup_us == 15);
  CHECK(one.decode.startup_us == 5);
  CHECK(one.encode.us_per_byte == Approx(6 / 900e3));
  const Compressor four = read(R"({"name": "power-sgd", "rank": 4})");
  CHECK(four.encode.startup_us == 105);  // 4 * 2 + 3 * 4 + 1 launches
  CHECK(four.decode == one.decode);
}

TEST_CASE("power-sgd: who takes the table's costs of coding is told that they were measured on no GPU") {
  const Scene scene(two_layers(), pair_of(2, 0.1));
  const auto warnings = [&](const std::string& compressor) {
    std::string out;
    for (const Warning& warning : scene.run(schedule_of(with(compressor, R"("fusion": "none")"))).warnings)
      out += warning.text + '\n';
    return out;
  };
  const auto estimated = [](const std::string& what) {
    return "compressor power-sgd: the costs of " + what +
           " are estimated for a V100, from passes over memory and launches of kernels, and were measured on "
           "no GPU\n";
  };
  CHECK(warnings(R"("power-sgd")") == estimated("encode, in_transit, decode"));
  CHECK(warnings(R"({"name": "power-sgd", "rank": 1, "encode": {}, "decode": {}})") ==
        estimated("in_transit"));
  CHECK(warnings(power_sgd()).empty());
  CHECK(warnings(R"({"name": "power-sgd", "min_compression_rate": 1000})").empty());  // nothing is encoded
}

TEST_CASE("power-sgd: it is written as it is read") {
  for (
      const std::string text :
      {R"("power-sgd")", R"({"name":"power-sgd","rank":4})",
       R"({"name":"power-sgd","rank":1,"min_compression_rate":1.5})",
       R"({"name":"power-sgd","rank":2,"encode":{"startup_us":1.0},"in_transit":{},"decode":{"us_per_byte":0.5}})"})
    CHECK(compressor_json(read(text)).dump() == text);
  CHECK_FALSE(read(R"({"name": "power-sgd", "ratio": 0.5})").low_rank.has_value());  // one of one's own
}

// ---- what is refused

TEST_CASE("power-sgd: other keys, pipelines of halves and profiles without shapes are refused") {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"name": "power-sgd", "rank": 0})",
            "c.json: /rank: expected an integer from 1 to 1000000000000, got 0"},
           {R"({"name": "power-sgd", "between_nodes": true})",
            "c.json: /between_nodes: expected a key among name, rank, min_compression_rate, encode, "
            "in_transit, "
            "decode, got 'between_nodes'"}}) {
    const auto& the_text = text;  // clang 14 cannot capture a structured binding
    CAPTURE(the_text);
    CHECK_THROWS_WITH_AS(read(text), message.c_str(), core::InputError);
  }
  for (const char* const pipeline : {"dear", "zero"})
    CHECK_THROWS_WITH_AS(
        schedule_of(fmt::format(R"({{"pipeline": "{}", "compression": "power-sgd"}})", pipeline)),
        doctest::Contains("/compression: expected a compressor of one message for a group, as pipeline "),
        core::InputError);

  core::Profile profile = two_layers();
  profile.layers.front().tensors.back().shape.clear();
  CHECK_FALSE(has_shapes(profile));
  const Schedule schedule = schedule_of(with(power_sgd(), R"("fusion": "all")"));
  const Scene scene(profile, pair_of(2, 0.1), 2);
  try {
    make_transfers(scene.setting, schedule);
    FAIL("not refused");
  } catch (const core::Unsupported& problem) {
    CHECK(problem.pointer() == "/profile");
    CHECK(problem.got() == "tensor 'l1.b' without");
  }
  const Scene alone(profile, pair_of(2, 0.1), 1);
  CHECK_NOTHROW(make_transfers(alone.setting, schedule));  // nothing is sent
}

TEST_CASE("power-sgd: it is not known message by message") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.fidelity = Fidelity::steps});
  CHECK_THROWS_WITH_AS(scene.run(schedule_of(with(power_sgd(), R"("fusion": "all")"))),
                       "expected an all-reduce that is known message by message, got power-sgd",
                       core::Unsupported);
}

// ---- plans against all groupings

/// A profile of small_profile() with shapes: bytes alone do not tell what a group costs.
core::Profile shaped_profile(Random& random) {
  core::Profile out = support::small_profile(random, 7);
  for (core::ProfileLayer& layer : out.layers)
    for (core::ProfileTensor& tensor : layer.tensors) {
      tensor.shape = {random.between(1, 12)};
      if (!random.one_in(3)) tensor.shape.push_back(random.between(1, 12));
      tensor.elements = tensor.shape.front() * (tensor.shape.size() > 1 ? tensor.shape.back() : 1);
    }
  return out;
}

Compressor random_power_sgd(Random& random) {
  Compressor out = low_rank_compressor(
      {.rank = random.between(1, 2), .min_compression_rate = 0.5 + support::eighths(random, 8)});
  const auto code = [&] {
    if (!random.one_in(5)) return support::random_code(random);
    return CodeCost{.curve = std::make_shared<const core::CostCurve>(
                        support::random_curve(random, random.one_in(2), random.one_in(3)))};
  };
  out.encode = code();
  out.in_transit = code();
  out.decode = code();
  return out;
}

#ifdef NDEBUG
constexpr std::uint32_t kSeeds = 400;
#else
constexpr std::uint32_t kSeeds = 40;
#endif

TEST_CASE("power-sgd: plans are the best of all groupings in the simulator") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    const bool slows = random.one_in(4);
    Conditions conditions = support::small_conditions(random);
    if (slows) conditions.overlap = {.compute_slowdown = 0.5, .communication_slowdown = 0.25};
    const Scene scene(shaped_profile(random),
                      support::small_network(random, support::NetworkKind{seed % support::kNetworkKinds}, 2),
                      2, conditions);
    Compressor compressor = random_power_sgd(random);
    if (slows) compressor.decode = {};  // with decoding, slow-down is planned heuristically
    support::Offer offer = {.compressor = compressor, .selective = random.one_in(4)};
    if (random.one_in(3)) offer.compressors = {Compressor{}};
    if (random.one_in(5)) offer.compressors.push_back(random_power_sgd(random));
    for (const support::PipelineCase& pipeline : support::pipeline_cases()) {
      if (pipeline.halves) continue;
      CAPTURE(seed);
      const std::string json = offer.json(pipeline);
      CAPTURE(json);
      const FusionRequest request = request_of(scene.setting, schedule_of(json));
      const OptimalGroups found = request.model().optimal({});
      CAPTURE(support::shown(found.groups));
      const support::Rank best = support::best_rank(
          scene.setting.workload.gradient_count(), static_cast<std::uint32_t>(request.transfers.size()),
          [&](const Groups& groups) { return simulate_iteration(request, groups); }, support::any_grouping);
      CHECK(simulate_iteration(request, found.groups) == found.value);
      CHECK(request.model().lower_bound() <= found.value);
      if (slows && any_decodes(request)) continue;
      CHECK(support::rank(found.groups, found.value) == best);
      CHECK(found.optimality_gap == sim::Time::zero());
    }
  }
}

}  // namespace
}  // namespace planner
