// Words and messages of all-reduces, counted in runs of the algorithms between threads.

#include <algorithm>
#include <array>
#include <bit>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/ok_topk.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/transport/in_process.hpp"
#include "validate/paper/quantities.hpp"
#include "validate/paper/sampled.hpp"

namespace validate {
namespace {

using sparse::OkTopkState;
using transport::Counts;
using transport::Transport;

struct Collective {
  std::string_view name;
  /// Runs one call on one rank; the state keeps the rank's earlier calls.
  void (*call)(Transport& transport, const SampledGradients& sampled, std::vector<float>& gradient,
               OkTopkState& state);
  /// A rank that does sequentially what others do in parallel is also charged for what it sends.
  bool sends_count = false;
};

constexpr std::array<Collective, 7> kCollectives = {{
    {"dense", [](Transport& t, const SampledGradients&, std::vector<float>& x,
                 OkTopkState&) { sparse::ring_all_reduce(t, x); }},
    {"topk-a",
     [](Transport& t, const SampledGradients& sampled, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_a(t, compression::top_k(x, sampled.kept), sampled.elements);
     }},
    {"topk-dsa",
     [](Transport& t, const SampledGradients& sampled, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_dsa(t, compression::top_k(x, sampled.kept), sampled.elements);
     }},
    {"topk-a in rounds",
     [](Transport& t, const SampledGradients& sampled, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_a(t, compression::top_k(x, sampled.kept), sampled.elements,
                            sparse::Gathering::rounds);
     }},
    {"topk-dsa in rounds",
     [](Transport& t, const SampledGradients& sampled, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_dsa(t, compression::top_k(x, sampled.kept), sampled.elements,
                              sparse::Gathering::rounds);
     }},
    {"gtopk",
     [](Transport& t, const SampledGradients& sampled, std::vector<float>& x, OkTopkState&) {
       (void)sparse::gtopk(t, compression::top_k(x, sampled.kept), sampled.elements, sampled.kept);
     },
     true},
    {"ok-topk", [](Transport& t, const SampledGradients& sampled, std::vector<float>& x,
                   OkTopkState& state) { (void)sparse::ok_topk(t, x, {.k = sampled.kept}, state); }},
}};

/// A divisor of figures: a formula of the paper's Table 1 without its factor.
struct Formula {
  std::string_view name;
  double (*value)(double n, double k, double p, double lg);
};

constexpr std::array<Formula, 9> kFormulas = {{
    {"1", [](double, double, double, double) { return 1.0; }},
    {"n(P-1)/P", [](double n, double, double p, double) { return n * (p - 1) / p; }},
    {"k(P-1)", [](double, double k, double p, double) { return k * (p - 1); }},
    {"k(P-1)/P", [](double, double k, double p, double) { return k * (p - 1) / p; }},
    {"(2k+n)(P-1)/P", [](double n, double k, double p, double) { return (2 * k + n) * (p - 1) / p; }},
    {"k lg P", [](double, double k, double, double lg) { return k * lg; }},
    {"lg P", [](double, double, double, double lg) { return lg; }},
    {"P+2 lg P", [](double, double, double p, double lg) { return p + 2 * lg; }},
    {"2P+2 lg P", [](double, double, double p, double lg) { return 2 * p + 2 * lg; }},
}};

template <typename Table>
const auto& entry_at(const Request& request, std::string_view key, const Table& table) {
  std::vector<std::string_view> names;
  names.reserve(table.size());
  for (const auto& each : table) names.push_back(each.name);
  const std::string name = request.at(key).one_of(names);
  return *std::ranges::find_if(table, [&](const auto& each) { return each.name == name; });
}

/// Returns the counts of the last call, indexed by rank.
std::vector<Counts> run(const Collective& collective, const SampledGradients& sampled) {
  std::vector<Counts> out(sampled.ranks);
  transport::run_ranks(sampled.ranks, [&](Transport& end) {
    OkTopkState state;
    for (std::uint64_t call = 0; call < sampled.calls; ++call) {
      transport::Counted counted(end);
      std::vector<float> gradient = sampled.gradient(end.rank(), call);
      collective.call(counted, sampled, gradient, state);
      out[end.rank()] = counted.total();
    }
  });
  return out;
}

/// The maximum over ranks, divided by the formula under `per`.
template <typename Of>
Values max(const Request& request, Of of) {
  const SampledGradients sampled = read_sampled(request);
  const Collective& collective = entry_at(request, "collective", kCollectives);
  const Formula& formula = entry_at(request, "per", kFormulas);
  std::int64_t max = 0;
  for (const Counts& counts : run(collective, sampled))
    max = std::max(max, of(counts, collective.sends_count));
  const double per = formula.value(static_cast<double>(sampled.elements), static_cast<double>(sampled.kept),
                                   sampled.ranks, std::bit_width(sampled.ranks - 1));
  return {{"", static_cast<double>(max) / per}};
}

Values words(const Request& request) {
  constexpr std::int64_t kBytesPerWord = 4;
  return max(request, [](const Counts& counts, bool sends_count) {
    return (counts.bytes_received + (sends_count ? counts.bytes_sent : 0)) / kBytesPerWord;
  });
}

Values messages(const Request& request) {
  return max(request, [](const Counts& counts, bool sends_count) {
    return counts.messages_received + (sends_count ? counts.messages_sent : 0);
  });
}

}  // namespace

std::vector<Quantity> counted_quantities() {
  const std::vector<std::string_view> keys = sampled_keys({"collective", "per"});
  return {
      {"counted_words",
       "words received by the busiest rank in the last call of a real run, in units of `per`", keys, words},
      {"counted_messages", "likewise", keys, messages}};
}

}  // namespace validate
