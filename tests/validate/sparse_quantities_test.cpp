// Quantities that are counted in runs of the sparse all-reduces, and those of steps, updates and weak
// scaling: compared with formulas and numbers computed by hand, and every error message verbatim.

#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "validate/paper/quantities.hpp"
#include "validate/paper/read_paper.hpp"

namespace validate {
namespace {

using doctest::Approx;

/// Two nodes of two: 1 us and 0.001 us a byte inside, 10 us and 0.01 between. 1000 bytes of gradient.
constexpr const char* kScenario = R"({"format": "fusewise.scenario", "version": 1,
  "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
    "device": "d", "origin": {"kind": "estimated", "source": "test"},
    "layers": [{"name": "l", "kind": "k", "forward_us": 100, "backward_us": 200, "tensors": [{"name": "t", "elements": 250}]}]},
  "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated", "source": "test"},
    "levels": [{"name": "in", "size": 2, "link": {"alpha_us": 1, "beta_us_per_byte": 0.001}},
               {"name": "out", "link": {"alpha_us": 10, "beta_us_per_byte": 0.01}}]},
  "workers": 4, "update": {"optimizer_us": 30, "lars_us": 40}})";

Values measured(const std::string& quantity) {
  const Paper paper = read_paper(
      R"({"format": "fusewise.paper", "version": 1, "name": "p", "title": "t", "source": "s",
        "scenarios": [{"name": "s", "scenario": )" +
          std::string(kScenario) +
          R"(}], "figures": [{"name": "f", "where": "w", "what": "w", "read": "text", "judge": "shown",
        "quantity": )" +
          quantity + "}]}",
      "p.json");
  return measure(paper, paper.figures.front());
}

double one(const std::string& quantity) {
  const Values values = measured(quantity);
  REQUIRE(values.size() == 1);
  return values.front().value;
}

std::string counted(const std::string& kind, const std::string& collective, const std::string& per,
                    int workers, int calls = 1) {
  return R"({"kind": ")" + kind + R"(", "collective": ")" + collective + R"(", "per": ")" + per +
         R"(", "elements": 4000, "density": 0.02, "gradients": {"common": 0}, "calls": )" +
         std::to_string(calls) + R"(, "workers": )" + std::to_string(workers) + "}";
}

TEST_CASE("counted quantities: Table 1 of Ok-Topk") {
  for (const int workers : {2, 4, 8}) {
    CAPTURE(workers);
    const auto words = [&](const std::string& collective, const std::string& per, int calls = 1) {
      return one(counted("counted_words", collective, per, workers, calls));
    };
    CHECK(words("dense", "n(P-1)/P") == Approx(2).epsilon(1e-12));
    CHECK(words("topk-a", "k(P-1)") == Approx(2).epsilon(1e-12));
    CHECK(words("topk-a", "1") == 2 * 80 * (workers - 1));
    CHECK(words("gtopk", "k lg P") == Approx(4).epsilon(1e-12));
    CHECK(words("topk-dsa", "k(P-1)/P") > 4);
    CHECK(words("topk-dsa", "(2k+n)(P-1)/P") < 1);
    CHECK(words("ok-topk", "k(P-1)/P", 2) > 2);
    CHECK(words("ok-topk", "k(P-1)/P", 2) < 6);
    const auto messages = [&](const std::string& collective, const std::string& per) {
      return one(counted("counted_messages", collective, per, workers, 2));
    };
    CHECK(messages("gtopk", "lg P") == 2);
    CHECK(messages("dense", "1") == 2 * (workers - 1));
    CHECK(messages("ok-topk", "2P+2 lg P") < 1);
    CHECK(messages("topk-a in rounds", "lg P") == 1);
    CHECK(messages("topk-a", "1") == workers - 1);
    CHECK(words("topk-a in rounds", "k(P-1)") == Approx(2).epsilon(1e-12));
    CHECK(messages("topk-dsa in rounds", "P+2 lg P") < 1);
    CHECK(messages("topk-dsa", "1") == 2 * (workers - 1));
  }
}

TEST_CASE("counted quantities: what selections fill, between all in common and nothing") {
  const auto fill_in = [](const std::string& gradients) {
    return one(
        R"({"kind": "fill_in_percent", "workers": 8, "elements": 20000, "density": 0.01, "gradients": )" +
        gradients + "}");
  };
  CHECK(fill_in(R"({"common": 1})") == Approx(1));
  CHECK(fill_in(R"({"common": 0})") == Approx(7.73).epsilon(0.02));  // 1 - 0.99^8
  const double half = fill_in(R"({"common": 0.5, "tails": "laplace", "seed": 3})");
  CHECK(half > 2);
  CHECK(half < 7);
}

TEST_CASE("counted quantities: thresholds select what they did while gradients stay") {
  const auto deviation = [](const std::string& drift) {
    return measured(
        R"({"kind": "selection_deviation_percent", "workers": 2, "elements": 5000, "density": 0.02, "calls": 8,
            "gradients": {"drift": )" +
        drift + "}}");
  };
  for (const Value& each : deviation("0")) CHECK(each.value == 0);
  const Values some = deviation("0.2");
  REQUIRE(some.size() == 2);
  CHECK(some[0].label == "local");
  CHECK(some[1].label == "global");
  for (const Value& each : some) CHECK(each.value > 0);
}

TEST_CASE("counted quantities: balanced regions pay where layers are unlike") {
  const auto gain = [](const std::string& sigma) {
    return one(R"({"kind": "split_gain", "workers": 8, "elements": 20000, "density": 0.01,
                   "gradients": {"layers": 10, "layer_sigma": )" +
               sigma + "}}");
  };
  CHECK(gain("0") == Approx(1).epsilon(0.2));
  CHECK(gain("1") > 1.5);
  const auto balancing = [](const std::string& seed) {
    return one(
        R"({"kind": "balancing_calls_percent", "workers": 8, "elements": 4000, "density": 0.01, "calls": 4,
                   "gradients": {"seed": )" +
        seed + "}}");
  };
  CHECK(balancing("1") == 0);
}

TEST_CASE("hitopk's shares: by the paper's equations") {
  const Values shares = measured(R"({"kind": "hitopk_shares_percent", "scenario": "s", "density": 0.1})");
  // between: 1 message, 8 bytes of each tenth element of half of the gradient; inside: 1 + 1 messages, half
  // of the gradient, and as much again as both nodes select, doubled by indexes; 30 passes over half of it
  const double between = 10 + 2 * 0.1 / 2 * 1000 * 0.01;
  const double inside = 2 + (0.5 + 0.5 * 2 * 0.2) * 1000 * 0.001;
  const double selecting = 150 + 30 * 500 / 900e3;
  const double all = between + inside + selecting;
  REQUIRE(shares.size() == 3);
  CHECK(shares[0].value == Approx(100 * between / all));
  CHECK(shares[1].value == Approx(100 * inside / all));
  CHECK(shares[2].value == Approx(100 * selecting / all));
  CHECK(one(R"({"kind": "between_nodes_percent", "scenario": "s", "density": 0.1})") ==
        Approx(100 * between / all));
}

TEST_CASE("update: with the parallel tensor operator and without") {
  const auto update = [](const std::string& parallel) {
    return one(R"({"kind": "update_ms", "scenario": "s", "schedule": "dense", "parallel_tensor_operator": )" +
               parallel + "}");
  };
  CHECK(update("false") == Approx(0.070));
  // a quarter of 40 us, and an all-gather of 4 bytes round the ring between nodes: 3 x (10 + 1 byte)
  CHECK(update("true") == Approx(0.030 + 0.010 + 3 * (0.010 + 0.00001)));
}

TEST_CASE("weak scaling: an iteration on fewer over one on more, and how communication grows") {
  const std::string ends = R"("scenario": "s", "schedule": "dense", "from_workers": 2, "workers": 4})";
  // rings of 2 (1 + 0.5) on two workers, of 6 x 10 + 1.5 x 10 on four
  CHECK(one(R"({"kind": "communication_growth", )" + ends) == Approx(75.0 / 3));
  CHECK(one(R"({"kind": "weak_efficiency_percent", )" + ends) == Approx(100 * 373.0 / 445));
}

TEST_CASE("coding: all encoding and decoding of an iteration") {
  CHECK(one(R"({"kind": "coding_ms", "scenario": "s", "schedule": {"name": "grace", "compression":
              {"name": "c", "ratio": 0.1, "encode": {"startup_us": 7}, "decode": {"us_per_byte": 0.002}}}})") ==
        Approx(0.009));
}

TEST_CASE("search: takes some time, or says that it was stopped") {
  const auto search = [](const std::string& fusion) {
    return measured(
        R"({"kind": "search_seconds", "scenario": "s", "schedule": {"name": "cupcake", "compression":
      {"name": "c", "ratio": 0.1, "encode": {"startup_us": 7}}, "fusion": )" +
        fusion + "}}");
  };
  const Values exact = search(R"("optimal")");
  CHECK(exact.front().label.empty());
  CHECK(exact.front().value > 0);
  CHECK(search(R"({"kind": "cupcake", "max_nodes": 1})").front().value > 0);
}

TEST_CASE("counted quantities: what they cannot count is refused with its place") {
  const auto refused = [](const std::string& change, const std::string& message) {
    CAPTURE(change);
    const std::string quantity =
        R"({"kind": "counted_words", "collective": "topk-a", "per": "1", "elements": 100)";
    CHECK_THROWS_WITH_AS((void)measured(quantity + change + "}"), message.c_str(), core::InputError);
  };
  refused(R"(, "density": 0.1)", "p.json: /figures/0/quantity/workers: expected a value, got nothing");
  refused(R"(, "density": 0.1, "workers": 1)",
          "p.json: /figures/0/quantity/workers: expected an integer from 2 to 64, got 1");
  refused(R"(, "density": 0.1, "workers": 65)",
          "p.json: /figures/0/quantity/workers: expected an integer from 2 to 64, got 65");
  refused(R"(, "density": 0.001, "workers": 2)",
          "p.json: /figures/0/quantity/density: expected one that keeps at least 1 element, got 0.001");
  refused(R"(, "density": 0.1, "workers": 2, "calls": 0)",
          "p.json: /figures/0/quantity/calls: expected an integer from 1 to 1000, got 0");
  refused(R"(, "density": 0.1, "workers": 2, "gradients": {"tail": "laplace"})",
          "p.json: /figures/0/quantity/gradients/tail: expected a key among seed, tails, layers, "
          "layer_sigma, common, "
          "drift, got 'tail', did you mean 'tails'?");
  refused(R"(, "density": 0.1, "workers": 2, "gradients": {"common": 2})",
          "p.json: /figures/0/quantity/gradients/common: expected a number from 0 to 1, got 2");
  CHECK_THROWS_WITH_AS(
      (void)measured(R"({"kind": "fill_in_percent", "workers": 64, "elements": 1000000, "density": 1})"),
      "p.json: /figures/0/quantity/elements: expected at most 2e7 with all workers and calls, got more",
      core::InputError);
  CHECK_THROWS_WITH_AS(
      (void)measured(R"({"kind": "balancing_calls_percent", "workers": 2, "elements": 100, "density": 0.1})"),
      "p.json: /figures/0/quantity/calls: expected a value, got nothing", core::InputError);
  CHECK_THROWS_WITH_AS(
      (void)measured(counted("counted_words", "top", "1", 2)),
      R"(p.json: /figures/0/quantity/collective: expected one of dense, topk-a, topk-dsa, topk-a in rounds, topk-dsa in rounds, gtopk, ok-topk, got "top", did you mean 'topk-a'?)",
      core::InputError);
}

}  // namespace
}  // namespace validate
