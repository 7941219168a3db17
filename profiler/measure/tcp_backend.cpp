// Collectives with the rounds that the simulator models, over the transport that connects the ranks.

#include <algorithm>
#include <limits>
#include <map>

#include "collectives/transport/collectives.hpp"
#include "profiler/measure/backend.hpp"
#include "sim/cluster/patterns.hpp"

namespace measure {
namespace {

constexpr std::uint32_t kTag = 100;

class TcpEngine final : public Engine {
 public:
  TcpEngine(transport::Transport& transport, std::string_view algorithm)
      : transport_(transport), algorithm_(algorithm) {}

  void load(std::span<const float> values) override {
    if (values.size() != buffer_.size()) made_.clear();
    buffer_.assign(values.begin(), values.end());
  }
  void store(std::span<float> values) override {
    std::copy_n(buffer_.begin(), std::min(values.size(), buffer_.size()), values.begin());
  }
  void start(Collective kind) override {
    if (kind == Collective::send_receive)
      transport::send_receive(transport_, buffer_, kTag);
    else
      transport::run_collective(transport_, made(kind), buffer_, kTag);
  }
  void finish() override {}
  std::string algorithm(Collective kind) const override {
    switch (kind) {
      case Collective::all_reduce: return algorithm_;
      case Collective::broadcast: return "binomial_tree";
      case Collective::send_receive: return "";
      default: return "ring";
    }
  }
  std::string description() const override { return "fusewise's own collectives over TCP"; }

 private:
  /// Created once per size; outside the timed part from the second use on.
  const cluster::Collective& made(Collective kind) {
    const auto found = made_.find(kind);
    if (found != made_.end()) return found->second;
    const std::string_view name =
        kind == Collective::all_reduce ? std::string_view(algorithm_) : entry(kind).name;
    const cluster::Shape shape = {.ranks = transport_.size(),
                                  .bytes = static_cast<std::int64_t>(buffer_.size())};
    return made_.emplace(kind, cluster::find_pattern(name)->make(shape)).first->second;
  }

  transport::Transport& transport_;
  std::string algorithm_;
  std::vector<float> buffer_;
  std::map<Collective, cluster::Collective> made_;
};

/// Excludes those that need to know nodes.
std::vector<std::string_view> algorithms() {
  std::vector<std::string_view> names;
  for (const cluster::PatternEntry& entry : cluster::patterns())
    if (entry.outcome == cluster::Outcome::all_reduce && entry.name != "two_level" && entry.name != "torus")
      names.push_back(entry.name);
  return names;
}

std::unique_ptr<Engine> make(transport::Transport& control, const EngineOptions& options) {
  return std::make_unique<TcpEngine>(control, options.algorithm.empty() ? "ring" : options.algorithm);
}

}  // namespace

CollectiveBackend tcp_backend() {
  return {.name = "tcp",
          .summary = "between processes over TCP sockets, on one host or many",
          .algorithms = algorithms,
          .protocols = [] { return std::vector<std::string_view>(); },
          .uses_control = true,
          .max_ranks = [](const EngineOptions&) { return std::numeric_limits<std::uint32_t>::max(); },
          .make = make};
}

}  // namespace measure
