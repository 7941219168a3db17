#include "validate/live/parcel_engine.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "transport/collectives.hpp"
#include "transport/prompt.hpp"

namespace live {
namespace {

constexpr std::size_t kLarge = 1 << 20;  // of which no more than two are timed in a row

}  // namespace

ParcelEngine::ParcelEngine(transport::Transport& transport, std::string all_reduce,
                           std::uint32_t workers_per_node)
    : transport_(transport),
      method_{.all_reduce = std::move(all_reduce), .workers_per_node = workers_per_node} {}

void ParcelEngine::load(std::span<const float> values) {
  if (values.size() != gradients_[0].size()) parcels_.clear();
  const std::size_t count = values.size_bytes() < kLarge ? gradients_.size() : 2;
  for (std::size_t i = 0; i < count; ++i) {
    gradients_[i].assign(values.begin(), values.end());
    if (parcels_.size() == i)
      parcels_.push_back(std::make_unique<Parcel>(method_, std::span(gradients_[i]), transport_.size(), 1));
    parcels_[i]->load();
  }
  started_ = stored_ = 0;
}

void ParcelEngine::store(std::span<float> values) {
  const std::span<const float> from =
      leaves_buffer_ ? parcels_[stored_]->buffer() : std::span<const float>(gradients_[stored_]);
  stored_ = (stored_ + 1) % parcels_.size();
  std::copy_n(from.begin(), std::min(values.size(), from.size()), values.begin());
}

void ParcelEngine::start(measure::Collective kind) {
  leaves_buffer_ = kind == measure::Collective::reduce_scatter;
  if (kind == measure::Collective::send_receive)
    transport::send_receive(transport_, gradients_[started_], tag_of(Tag::dense));
  else
    parcels_[started_]->carry(transport_, *measure::entry(kind).in_network);
  started_ = (started_ + 1) % parcels_.size();
}

void ParcelEngine::enter_thread() { transport::be_prompt(); }

std::string ParcelEngine::algorithm(measure::Collective kind) const {
  if (kind == measure::Collective::send_receive) return "";
  return kind == measure::Collective::all_reduce ? method_.all_reduce : "ring";
}

}  // namespace live
