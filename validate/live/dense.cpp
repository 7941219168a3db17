#include "validate/live/dense.hpp"

#include <algorithm>

#include "collectives/transport/collectives.hpp"
#include "validate/live/tags.hpp"

namespace live {

measure::Collective measured(core::CollectiveKind kind) {
  return std::ranges::find(measure::collectives(), kind, &measure::CollectiveEntry::in_network)->kind;
}

Dense::Dense(std::span<float> values, const cluster::Shape& shape, std::string all_reduce,
             std::unique_ptr<measure::Engine> engine)
    : values_(values), shape_(shape), all_reduce_(std::move(all_reduce)), engine_(std::move(engine)) {
  shape_.bytes = static_cast<std::int64_t>(values.size());
}

void Dense::load() {
  if (engine_) engine_->load(values_);
}

void Dense::store() {
  if (engine_) engine_->store(values_);
}

void Dense::run(transport::Transport& transport, core::CollectiveKind kind) {
  if (!engine_) return transport::run_collective(transport, made(kind), values_, tag_of(Tag::dense));
  engine_->start(measured(kind));
  engine_->finish();
}

/// Constructs the collective on first use.
const cluster::Collective& Dense::made(core::CollectiveKind kind) {
  for (const auto& [known, collective] : made_)
    if (known == kind) return collective;
  const std::string_view name =
      kind == core::CollectiveKind::all_reduce ? std::string_view(all_reduce_) : core::name(kind);
  return made_.emplace_back(kind, cluster::find_pattern(name)->make(shape_)).second;
}

}  // namespace live
