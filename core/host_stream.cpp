#include "core/host_stream.hpp"

#include <algorithm>
#include <optional>

namespace core {
namespace {

bool has_host_times(const Profile& profile) { return profile.iteration && profile.iteration->host_us; }

/// When the host has launched everything so far and when the device has finished it; us.
class TwoStreams {
 public:
  explicit TwoStreams(bool host_waits) : host_waits_(host_waits) {}

  /// Returns what the next part of the iteration takes.
  double run(double host_us, double device_us) {
    if (!host_waits_) return device_us;
    host_ += host_us;
    const double before = device_;
    device_ = std::max(device_ + device_us, host_);
    return std::max(device_us, device_ - before);  // rounding must not make it shorter than its kernels
  }

 private:
  bool host_waits_;
  double host_ = 0;
  double device_ = 0;
};

/// Returns the factor by which the time has changed.
double set(double& us, std::optional<double>& device_us, std::optional<double>& spread_us, double host_us,
           TwoStreams& streams) {
  if (!device_us) device_us = us;
  const double before = us;
  us = streams.run(host_us, *device_us);
  const double factor = before > 0 ? us / before : 1;
  if (spread_us) *spread_us *= factor;
  return factor;
}

void set_tensors(ProfileLayer& layer, double before_us, double factor) {
  for (ProfileTensor& tensor : layer.tensors)
    if (tensor.backward_us)
      *tensor.backward_us = before_us > 0 ? *tensor.backward_us * factor
                                          : layer.backward_us / static_cast<double>(layer.tensors.size());
}

}  // namespace

Profile with_host_stream(Profile profile) {
  if (!has_host_times(profile)) return profile;
  TwoStreams streams(profile.iteration->synchronizes);
  for (ProfileLayer& layer : profile.layers)
    set(layer.forward_us, layer.forward_device_us, layer.forward_spread_us, *layer.forward_host_us, streams);
  for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer) {
    const double before = layer->backward_us;
    const double factor = set(layer->backward_us, layer->backward_device_us, layer->backward_spread_us,
                              *layer->backward_host_us, streams);
    set_tensors(*layer, before, factor);
  }
  return profile;
}

double host_bound_us(const Profile& profile, std::int64_t micro_batches) {
  if (!has_host_times(profile) || profile.iteration->synchronizes) return 0;
  double layers = 0;
  for (const ProfileLayer& layer : profile.layers) layers += *layer.forward_host_us + *layer.backward_host_us;
  return static_cast<double>(micro_batches) * layers + *profile.iteration->host_us;
}

}  // namespace core
