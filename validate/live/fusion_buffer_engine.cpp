#include "validate/live/fusion_buffer_engine.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "collectives/transport/collectives.hpp"
#include "collectives/transport/low_latency.hpp"

namespace live {
namespace {

constexpr std::size_t kLarge = 1 << 20;  // at most two of these are timed consecutively

}  // namespace

FusionBufferEngine::FusionBufferEngine(transport::Transport& transport, std::string all_reduce,
                                       std::uint32_t workers_per_node)
    : transport_(transport),
      method_{.all_reduce = std::move(all_reduce), .workers_per_node = workers_per_node} {}

void FusionBufferEngine::load(std::span<const float> values) {
  if (values.size() != gradients_[0].size()) fusion_buffers_.clear();
  const std::size_t count = values.size_bytes() < kLarge ? gradients_.size() : 2;
  for (std::size_t i = 0; i < count; ++i) {
    gradients_[i].assign(values.begin(), values.end());
    if (fusion_buffers_.size() == i)
      fusion_buffers_.push_back(
          std::make_unique<FusionBuffer>(method_, std::span(gradients_[i]), transport_.size(), 1));
    fusion_buffers_[i]->load();
  }
  started_ = stored_ = 0;
}

void FusionBufferEngine::store(std::span<float> values) {
  const std::span<const float> from =
      leaves_buffer_ ? fusion_buffers_[stored_]->buffer() : std::span<const float>(gradients_[stored_]);
  stored_ = (stored_ + 1) % fusion_buffers_.size();
  std::copy_n(from.begin(), std::min(values.size(), from.size()), values.begin());
}

void FusionBufferEngine::start(measure::Collective kind) {
  leaves_buffer_ = kind == measure::Collective::reduce_scatter;
  if (kind == measure::Collective::send_receive)
    transport::send_receive(transport_, gradients_[started_], tag_of(Tag::dense));
  else
    fusion_buffers_[started_]->carry(transport_, *measure::entry(kind).in_network);
  started_ = (started_ + 1) % fusion_buffers_.size();
}

void FusionBufferEngine::enter_thread() { transport::use_low_latency_scheduling(); }

std::string FusionBufferEngine::algorithm(measure::Collective kind) const {
  if (kind == measure::Collective::send_receive) return "";
  return kind == measure::Collective::all_reduce ? method_.all_reduce : "ring";
}

}  // namespace live
