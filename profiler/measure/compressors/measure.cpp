#include "profiler/measure/compressors/measure.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace profiler {
namespace {

core::CodePoint measured_point(CompressorDevice& device, const compression::Compressor& compressor,
                               double density, const CompressorOptions& options, std::int64_t elements) {
  const auto calls = device.calls(compressor, {.density = density, .seed = options.seed},
                                  static_cast<std::size_t>(elements));
  double bytes = 0;
  double encodings = 0;
  core::CodePoint out = {.elements = elements};
  out.encode = device.timed(options.samples, [&] {
    bytes += calls->encode();
    ++encodings;
  });
  out.decode = device.timed(options.samples, [&] { calls->decode(); });
  out.bytes = bytes / encodings;
  return out;
}

/// An encoding that selects elements is empty where none is to be kept.
bool is_sparse(const compression::Compressor& compressor) {
  constexpr std::size_t kAny = 1024;
  return compressor.wire_bytes(kAny, 0).max == 0;
}

core::MeasuredCompressor measured(CompressorDevice& device, const compression::Compressor& compressor,
                                  const CompressorOptions& options,
                                  const std::function<void(const std::string&)>& progress) {
  core::MeasuredCompressor out = {.name = std::string(compressor.name), .curves = {}};
  if (compressor.sums()) out.collective = core::CollectiveKind::all_reduce;
  const bool has_density = is_sparse(compressor);
  for (const double density : has_density ? options.densities : std::vector<double>{1}) {
    progress(has_density ? fmt::format("{} at density {}", compressor.name, density)
                         : std::string(compressor.name));
    core::CodeCurve curve;
    if (has_density) curve.density = density;
    for (const std::int64_t elements : options.elements)
      curve.points.push_back(measured_point(device, compressor, density, options, elements));
    out.curves.push_back(std::move(curve));
  }
  return out;
}

template <typename Names, typename Name>
bool contains(const Names& names, const Name& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::span<const CompressorBackend> compressor_backends() {
  static const std::array all = {cpu_compressors(), cuda_compressors()};
  return all;
}

core::CompressorCosts measure_compressors(const CompressorBackend& backend, const CompressorOptions& options,
                                          const std::string& command, const CompressorProgress& progress) {
  const std::unique_ptr<CompressorDevice> device =
      backend.open(static_cast<std::size_t>(options.elements.back()), options.seed);
  core::CompressorCosts out = {
      .device = device->name(),
      .command = command,
      .origin = {.kind = core::OriginKind::measured,
                 .source = fmt::format(
                     "backend {} on {}: medians of {} {}, error feedback included, gradients normally "
                     "distributed in layers of different scales",
                     backend.name, device->name(), options.samples, backend.sample)},
      .compressors = {}};
  const std::vector<std::string_view> implemented = backend.compressors();
  std::vector<const compression::Compressor*> chosen;
  std::size_t curves = 0;
  for (const compression::Compressor& compressor : compression::compressors())
    if (contains(implemented, compressor.name) &&
        (options.compressors.empty() || contains(options.compressors, compressor.name))) {
      chosen.push_back(&compressor);
      curves += is_sparse(compressor) ? options.densities.size() : 1;
    }
  for (const compression::Compressor* compressor : chosen)
    out.compressors.push_back(measured(*device, *compressor, options, [&](const std::string& what) {
      if (progress) progress(curves, what);
    }));
  return out;
}

}  // namespace profiler
