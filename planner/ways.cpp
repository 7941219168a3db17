#include "planner/ways.hpp"

#include <algorithm>
#include <utility>

namespace planner {

using traces::CollectiveKind;

Way chosen(const Way& own, const WayChoice& choice) {
  return {.all_reduce = choice.all_reduce.value_or(own.all_reduce),
          .compressor = choice.compressor.value_or(own.compressor),
          .selective = own.selective && !choice.compressor};
}

WayCost::WayCost(const traces::Network& network, std::int64_t workers, Way way, double slowdown)
    : way_(std::move(way)),
      costs_(network, workers, way_.all_reduce),
      slowdown_(slowdown),
      deciding_slowdown_(slowdown),
      compresses_(workers > 1 && !way_.compressor.is_none()) {}

WayCost WayCost::at_full_speed() const {
  WayCost out = *this;
  out.slowdown_ = 1;
  return out;
}

CollectiveKind WayCost::carrier(CollectiveKind kind) const {
  return compresses_ && kind == CollectiveKind::all_reduce ? way_.compressor.collective : kind;
}

bool WayCost::is_encoded(std::int64_t bytes) const {
  if (!compresses_ || !way_.selective) return compresses_;
  const auto dense = static_cast<double>(bytes);
  const double codes = way_.compressor.encode.us(dense) + way_.compressor.decode.us(dense);
  return encoded_us(CollectiveKind::all_reduce, dense) + deciding_slowdown_ * codes <
         dense_us(CollectiveKind::all_reduce, dense);
}

double WayCost::encode_us(std::int64_t bytes) const {
  return is_encoded(bytes) ? slowdown_ * way_.compressor.encode.us(static_cast<double>(bytes)) : 0;
}

double WayCost::decode_us(std::int64_t bytes) const {
  return is_encoded(bytes) ? slowdown_ * way_.compressor.decode.us(static_cast<double>(bytes)) : 0;
}

double WayCost::us(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  return is_encoded(bytes) ? encoded_us(kind, dense) : dense_us(kind, dense);
}

GroupCost WayCost::cost(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  if (!is_encoded(bytes)) return {.encode = {}, .channel = sim::from_us(dense_us(kind, dense)), .decode = {}};
  return {.encode = sim::from_us(slowdown_ * way_.compressor.encode.us(dense)),
          .channel = sim::from_us(encoded_us(kind, dense)),
          .decode = sim::from_us(slowdown_ * way_.compressor.decode.us(dense))};
}

double WayCost::message_bytes(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  return is_encoded(bytes) ? encoded_message(kind, dense) : dense;
}

double WayCost::sent_bytes(CollectiveKind kind, std::int64_t bytes) const {
  const CollectiveKind carried = is_encoded(bytes) ? carrier(kind) : kind;
  return costs_.of(carried).sent_per_byte * message_bytes(kind, bytes);
}

bool WayCost::is_monotone(CollectiveKind kind) const {
  return costs_.of(carrier(kind)).curve.is_monotone() && !(compresses_ && way_.selective);
}

double WayCost::saved_on_channel_us(CollectiveKind kind) const {
  return compresses_ && way_.selective ? -1 : costs_.of(carrier(kind)).curve.saved_by_merging_us();
}

double WayCost::saved_in_code_us() const {
  if (!compresses_) return 0;
  return way_.selective ? -1
                        : slowdown_ * (way_.compressor.encode.startup_us + way_.compressor.decode.startup_us);
}

double WayCost::most_us(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  if (!compresses_) return costs_.of(kind).curve.most_us(dense);
  const double codes = way_.compressor.encode.us(dense) + way_.compressor.decode.us(dense);
  const double encoded =
      slowdown_ * codes + costs_.of(carrier(kind)).curve.most_us(encoded_message(kind, dense));
  return way_.selective ? std::max(encoded, costs_.of(kind).curve.most_us(dense)) : encoded;
}

double WayCost::dense_us(CollectiveKind kind, double bytes) const { return costs_.of(kind).curve.us(bytes); }

double WayCost::encoded_us(CollectiveKind kind, double bytes) const {
  return costs_.of(carrier(kind)).curve.us(encoded_message(kind, bytes));
}

double WayCost::encoded_message(CollectiveKind kind, double bytes) const {
  const double contribution = way_.compressor.ratio * bytes;
  const bool gathers = carrier(kind) != kind;
  return gathers ? static_cast<double>(costs_.workers()) * contribution : contribution;
}

}  // namespace planner
