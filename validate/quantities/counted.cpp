// Words and messages of all-reduces, counted from runs of the algorithms between threads.

#include <algorithm>
#include <array>
#include <bit>

#include "compression/select.hpp"
#include "sparse/collectives.hpp"
#include "sparse/ok_topk.hpp"
#include "sparse/ring.hpp"
#include "transport/in_process.hpp"
#include "validate/drawn.hpp"
#include "validate/quantities.hpp"

namespace validate {
namespace {

using sparse::OkTopkState;
using transport::Counts;
using transport::Transport;

struct Collective {
  std::string_view name;
  /// One call on one rank; the state is that of the rank's calls so far.
  void (*call)(Transport& transport, const Drawn& drawn, std::vector<float>& gradient, OkTopkState& state);
  /// A rank that does one after another what others do at once pays for what it sends, too.
  bool sends_count = false;
};

constexpr std::array<Collective, 7> kCollectives = {{
    {"dense",
     [](Transport& t, const Drawn&, std::vector<float>& x, OkTopkState&) { sparse::ring_all_reduce(t, x); }},
    {"topk-a",
     [](Transport& t, const Drawn& drawn, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_a(t, compression::top_k(x, drawn.kept), drawn.elements);
     }},
    {"topk-dsa",
     [](Transport& t, const Drawn& drawn, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_dsa(t, compression::top_k(x, drawn.kept), drawn.elements);
     }},
    {"topk-a in rounds",
     [](Transport& t, const Drawn& drawn, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_a(t, compression::top_k(x, drawn.kept), drawn.elements, sparse::Gathering::rounds);
     }},
    {"topk-dsa in rounds",
     [](Transport& t, const Drawn& drawn, std::vector<float>& x, OkTopkState&) {
       (void)sparse::topk_dsa(t, compression::top_k(x, drawn.kept), drawn.elements,
                              sparse::Gathering::rounds);
     }},
    {"gtopk",
     [](Transport& t, const Drawn& drawn, std::vector<float>& x, OkTopkState&) {
       (void)sparse::gtopk(t, compression::top_k(x, drawn.kept), drawn.elements, drawn.kept);
     },
     true},
    {"ok-topk", [](Transport& t, const Drawn& drawn, std::vector<float>& x,
                   OkTopkState& state) { (void)sparse::ok_topk(t, x, {.k = drawn.kept}, state); }},
}};

/// What figures are divided by: a formula of the paper's Table 1 without its factor.
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
  return *std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.name == name; });
}

/// By rank, of the last call.
std::vector<Counts> run(const Collective& collective, const Drawn& drawn) {
  std::vector<Counts> out(drawn.ranks);
  transport::run_ranks(drawn.ranks, [&](Transport& end) {
    OkTopkState state;
    for (std::uint64_t call = 0; call < drawn.calls; ++call) {
      transport::Counted counted(end);
      std::vector<float> gradient = drawn.gradient(end.rank(), call);
      collective.call(counted, drawn, gradient, state);
      out[end.rank()] = counted.total();
    }
  });
  return out;
}

/// Of the rank with the most, over the formula under `per`.
template <typename Of>
Values most(const Request& request, Of of) {
  const Drawn drawn = read_drawn(request);
  const Collective& collective = entry_at(request, "collective", kCollectives);
  const Formula& formula = entry_at(request, "per", kFormulas);
  std::int64_t most = 0;
  for (const Counts& counts : run(collective, drawn))
    most = std::max(most, of(counts, collective.sends_count));
  const double per = formula.value(static_cast<double>(drawn.elements), static_cast<double>(drawn.kept),
                                   drawn.ranks, std::bit_width(drawn.ranks - 1));
  return {{"", static_cast<double>(most) / per}};
}

Values words(const Request& request) {
  constexpr std::int64_t kBytesPerWord = 4;
  return most(request, [](const Counts& counts, bool sends_count) {
    return (counts.bytes_received + (sends_count ? counts.bytes_sent : 0)) / kBytesPerWord;
  });
}

Values messages(const Request& request) {
  return most(request, [](const Counts& counts, bool sends_count) {
    return counts.messages_received + (sends_count ? counts.messages_sent : 0);
  });
}

}  // namespace

std::vector<Quantity> counted_quantities() {
  const std::vector<std::string_view> keys = drawn_keys({"collective", "per"});
  return {{"counted_words", "of the rank with the most in the last call of a real run, in units of `per`",
           keys, words},
          {"counted_messages", "likewise", keys, messages}};
}

}  // namespace validate
