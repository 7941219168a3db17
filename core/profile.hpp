// A profile: the forward and backward times of one worker's layers, and their gradients.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/origin.hpp"

namespace core {

/// The element type of a gradient on the network.
enum class Dtype { float32, float16, bfloat16 };

std::string_view name(Dtype dtype);
std::optional<Dtype> dtype(std::string_view name);
std::int64_t bytes_per_element(Dtype dtype);

struct ProfileTensor {
  std::string name;
  std::int64_t elements = 0;
  /// Its part of the layer's backward time. Either no tensor of a layer has it or all have; parts run last
  /// tensor first.
  std::optional<double> backward_us = std::nullopt;
  std::vector<std::int64_t> shape = {};  ///< its product is `elements`; empty if it is not known
  bool is_scalar = false;                ///< whether it is known to have no dimension
  bool operator==(const ProfileTensor&) const = default;
};

struct ProfileLayer {
  std::string name;
  std::string kind;
  double forward_us = 0;   ///< with the time in which the device waits for the host to launch its kernels
  double backward_us = 0;  ///< likewise
  std::vector<ProfileTensor> tensors = {};
  /// The module that is called when its tensors are used, all of which it or modules below it own; "" is the
  /// model itself. Absent if it is not known.
  std::optional<std::string> module = std::nullopt;
  std::int64_t frozen_elements = 0;  ///< of its parameters that are not trained, which `tensors` leaves out
  std::optional<double> forward_spread_us = std::nullopt;   ///< interquartile range of the samples
  std::optional<double> backward_spread_us = std::nullopt;  ///< interquartile range of the samples
  std::optional<std::int64_t> activation_bytes = std::nullopt;
  std::optional<double> forward_device_us = std::nullopt;  ///< its kernels alone; all of forward_us if absent
  std::optional<double> backward_device_us =
      std::nullopt;  ///< its kernels alone; all of backward_us if absent
  /// What the host needs to launch its kernels; see core/host_stream.hpp. All layers have both, or none.
  std::optional<double> forward_host_us = std::nullopt;
  std::optional<double> backward_host_us = std::nullopt;
  bool operator==(const ProfileLayer&) const = default;
};

/// What a worker does in an iteration besides its layers and communication.
struct ProfileIteration {
  double optimizer_us = 0;
  double other_us =
      0;  ///< before forward: loading data, copies, and whatever else the host does between iterations
  double waiting_us = 0;  ///< before forward, for slower workers, where there are others
  /// What the host does besides launching layers. Every layer then has its host times.
  std::optional<double> host_us = std::nullopt;
  /// Whether the host waits in every iteration until the device has finished; otherwise it runs ahead.
  bool synchronizes = true;
  bool operator==(const ProfileIteration&) const = default;
};

/// 95 % of what the times of all layers may be, as factors of the profile's, lie between these; the factor is
/// the same for all layers.
struct ComputeRange {
  double low = 1;   ///< above 0 and at most 1
  double high = 1;  ///< at least 1
  bool operator==(const ComputeRange&) const = default;
};

/// The largest `high`, and one over the smallest `low`, that a profile accepts.
constexpr double kMaxComputeRange = 1e3;

struct Profile {
  std::string model;
  std::int64_t batch_size = 1;  ///< samples per worker and micro-batch
  Dtype dtype = Dtype::float32;
  std::string device;
  Origin origin;
  std::vector<ProfileLayer> layers;                          ///< in forward order
  std::optional<ProfileIteration> iteration = std::nullopt;  ///< absent if it was not measured
  std::optional<ComputeRange> compute_range = std::nullopt;  ///< stated by estimates
  bool operator==(const Profile&) const = default;
};

/// Reads and checks `fusewise.profile`; throws InputError.
Profile read_profile(const core::Field& field);

/// Returns the text of the file.
std::string profile_text(const Profile& profile);

std::int64_t tensor_count(const Profile& profile);
/// Elements of all parameters that are not trained.
std::int64_t frozen_count(const Profile& profile);
/// Elements of all tensors.
std::int64_t parameter_count(const Profile& profile);
/// Returns the profile of a job that launches its kernels in time (as CUDA graphs do): layers take what their
/// kernels take, and the host delays nothing.
Profile without_launch_waits(Profile profile);
/// Whether a dotted name is that of this module, or of something below it; everything is below "".
bool is_below(std::string_view name, std::string_view module);
double forward_us(const Profile& profile);
double backward_us(const Profile& profile);

/// The measured slowdown of computation and communication when they overlap: while the other runs, each takes
/// 1 + slowdown times as long.
struct ProfileOverlap {
  double compute_slowdown = 0;
  double communication_slowdown = 0;
  bool operator==(const ProfileOverlap&) const = default;
};

/// The maximum that scenarios and profiles accept.
constexpr double kMaxOverlapSlowdown = 1e6;

/// Returns the slow-downs in a scenario's profile; nothing if they were not measured.
std::optional<ProfileOverlap> read_profile_overlap(const core::Field& profile);

/// Returns the text of the profile file, with the overlap.
std::string profile_text(const Profile& profile, const ProfileOverlap& overlap);

}  // namespace core
