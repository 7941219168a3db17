// What is decided on the host: when a call is another one, how many samples, and what is wrong with bytes.

#include "collectives/compression/cuda/device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/sign_wire.hpp"
#include "collectives/compression/sparse_wire.hpp"
#include "collectives/compression/trials.hpp"
#include "sim/draws.hpp"

namespace compression::cuda {
namespace {

constexpr std::size_t kWord = 4;
constexpr auto kPerKept = static_cast<std::size_t>(kBytesPerKept);

[[noreturn]] void refuse_name(std::string_view name) {
  throw std::invalid_argument("no compressor on a device: " + std::string(name));
}

const Compressor& known(std::string_view name) {
  const Compressor* compressor = find_compressor(name);
  if (compressor == nullptr) refuse_name(name);
  return *compressor;
}

/// How many scales an encoding of signs has; nothing for others.
std::optional<std::size_t> scales_of(std::string_view name) {
  if (name == "efsignsgd") return 1;
  if (name == "onebit") return 2;
  return std::nullopt;
}

std::optional<Half> half_of(std::string_view name) {
  if (name == "fp16") return Half::float16;
  if (name == "bf16") return Half::bfloat16;
  return std::nullopt;
}

std::uint32_t index_at(Engine& engine, DeviceBytes bytes, std::size_t i) {
  std::array<std::byte, kWord> word{};
  engine.download(word.data(), bytes.data + i * kWord, kWord);
  return get<std::uint32_t>(word.data());
}

/// As unpack() does.
DeviceKept checked_kept(Engine& engine, DeviceBytes bytes, std::size_t elements) {
  if (bytes.count % kPerKept != 0) refuse("sparse encoding", "a multiple of 8 bytes", bytes.count);
  const std::size_t count = bytes.count / kPerKept;
  const auto* indexes = reinterpret_cast<const std::uint32_t*>(bytes.data);
  const std::size_t bad = engine.first_bad_index(indexes, count, elements);
  if (bad < count) {
    const std::uint32_t index = index_at(engine, bytes, bad);
    const bool is_growing = bad == 0 || index > index_at(engine, bytes, bad - 1);
    refuse("sparse encoding", is_growing ? "indexes below the number of elements" : "growing indexes", index);
  }
  return {.indexes = indexes,
          .values = reinterpret_cast<const float*>(bytes.data + count * kWord),
          .count = count};
}

/// As check_signs() does; what the two signs stand for.
std::array<float, 2> checked_values(Engine& engine, std::string_view name, std::size_t scales,
                                    DeviceBytes bytes, std::size_t elements) {
  const std::string its_name(name);
  const std::size_t header = scales * kWord;
  if (bytes.count != header + sign_bytes(elements))
    refuse(its_name.c_str(), "scales and a bit for each element", bytes.count);
  Bytes ends(header + (elements % 8 != 0 ? 1 : 0));  // an encoding of the last few elements by itself
  engine.download(ends.data(), bytes.data, header);
  if (elements % 8 != 0) engine.download(&ends.back(), bytes.data + bytes.count - 1, 1);
  check_signs(its_name.c_str(), ends, scales, elements % 8);
  const float first = get_float(ends.data());
  return {first, scales == 1 ? -first : -get_float(ends.data() + kWord)};
}

void change(Device& device, std::string_view name, DeviceBytes bytes, float* out, std::size_t elements,
            bool subtracts) {
  Engine& engine = device.engine();
  const std::string its_name(known(name).name);
  if (const std::optional<Half> half = half_of(name)) {
    if (bytes.count != 2 * elements) refuse(its_name.c_str(), "2 bytes for each element", bytes.count);
    return engine.add_halves(bytes.data, *half, out, elements, subtracts);
  }
  const std::optional<std::size_t> scales = scales_of(name);
  if (!scales) return engine.add_kept(checked_kept(engine, bytes, elements), out, subtracts);
  const std::array<float, 2> values = checked_values(engine, name, *scales, bytes, elements);
  const float by_sign[2] = {values[0], values[1]};
  engine.add_signs(bytes.data + *scales * kWord, by_sign, out, elements, subtracts);
}

/// The call's own seed, as the compressors draw it.
std::uint64_t next_seed(State& state) { return sim::hash(state.seed, state.calls++); }

}  // namespace

DeviceKept top_k(Device& device, DeviceFloats x, std::size_t k) { return device.engine().top_k(x, k); }

DeviceKept at_least(Device& device, DeviceFloats x, float threshold) {
  return device.engine().at_least(x, min_magnitude(threshold));
}

DeviceKept mstopk(Device& device, DeviceFloats x, std::size_t k, std::uint64_t seed, int samplings) {
  return device.engine().mstopk(x, k, seed, samplings);
}

DeviceKept dgc(Device& device, DeviceFloats x, std::size_t k, std::uint64_t seed) {
  constexpr std::size_t kMinSamples = 512;
  Engine& engine = device.engine();
  const std::size_t samples = std::max(kMinSamples, x.count / 100);
  if (k == 0 || k >= x.count || samples >= x.count) return engine.top_k(x, k);
  const double share = static_cast<double>(k) / static_cast<double>(x.count);
  const auto rank = static_cast<std::size_t>(std::llround(share * static_cast<double>(samples)));
  const std::uint32_t min = engine.sampled_magnitude(x, samples, seed, std::max<std::size_t>(rank, 1));
  const std::size_t max = k + k / 4;  // 4 kept <= 5 k
  const DeviceKept kept = engine.at_least(x, min, max);
  return kept.count > max ? engine.top_k(x, k) : kept;
}

DeviceKept random_k(Device& device, DeviceFloats x, std::size_t k, std::uint64_t seed) {
  return device.engine().random_k(x, k, seed);
}

DeviceKept gaussian_k(Device& device, DeviceFloats x, std::size_t k) {
  Engine& engine = device.engine();
  if (k == 0 || k >= x.count) return engine.top_k(x, k);
  const DeviceMoments of = engine.moments(x);
  DeviceKept kept;
  const std::optional<float> threshold =
      adjusted_threshold(k, normal_threshold(of.mean, of.deviation, k, x.count), [&](float trial) {
        kept = engine.at_least(x, min_magnitude(trial), k + k / 4);
        return kept.count;
      });
  return threshold ? kept : engine.top_k(x, k);
}

DeviceKept reuse_threshold(Device& device, DeviceFloats x, std::size_t k, ReusedThreshold& state) {
  if (state.recompute_every == 0) throw std::invalid_argument("expected recompute_every >= 1, got 0");
  Engine& engine = device.engine();
  const bool is_due = state.calls++ % state.recompute_every == 0;
  if (k == 0 || k >= x.count) return engine.top_k(x, k);
  const auto reaching = [&] { return engine.at_least(x, min_magnitude(state.threshold), 2 * k); };
  if (!is_due && is_finite(state.threshold))
    if (const DeviceKept kept = reaching(); kept.count <= 2 * k) return kept;
  state.threshold = std::bit_cast<float>(engine.kth_magnitude(x, k));
  const DeviceKept kept = reaching();
  return kept.count > 2 * k ? engine.top_k(x, k) : kept;
}

namespace {

struct Selector {
  std::string_view name;
  DeviceKept (*select)(Device& device, DeviceFloats x, std::size_t k, State& state);
};

constexpr std::array kSelectors = {
    Selector{"top-k",
             [](Device& device, DeviceFloats x, std::size_t k, State&) { return top_k(device, x, k); }},
    Selector{"mstopk", [](Device& device, DeviceFloats x, std::size_t k,
                          State& state) { return mstopk(device, x, k, next_seed(state)); }},
    Selector{"dgc", [](Device& device, DeviceFloats x, std::size_t k,
                       State& state) { return dgc(device, x, k, next_seed(state)); }},
    Selector{"random-k", [](Device& device, DeviceFloats x, std::size_t k,
                            State& state) { return random_k(device, x, k, next_seed(state)); }},
    Selector{"gaussian-k",
             [](Device& device, DeviceFloats x, std::size_t k, State&) { return gaussian_k(device, x, k); }},
    Selector{"threshold", [](Device& device, DeviceFloats x, std::size_t k,
                             State& state) { return reuse_threshold(device, x, k, state.reused); }},
};

}  // namespace

bool is_sparse(std::string_view name) {
  return std::ranges::find(kSelectors, name, &Selector::name) != kSelectors.end();
}

std::vector<std::string_view> compressor_names() {
  std::vector<std::string_view> out;
  for (const Compressor& compressor : compressors())
    if (is_sparse(compressor.name) || scales_of(compressor.name) || half_of(compressor.name))
      out.push_back(compressor.name);
  return out;
}

DeviceKept select(Device& device, std::string_view name, DeviceFloats x, State& state) {
  const auto* found = std::ranges::find(kSelectors, name, &Selector::name);
  if (found == kSelectors.end()) refuse_name(name);
  return found->select(device, x, kept_elements(x.count, state.density), state);
}

DeviceBytes encode_dense(Device& device, std::string_view name, DeviceFloats x) {
  if (const auto scales = scales_of(name)) return device.engine().encode_signs(x, *scales);
  if (const auto half = half_of(name)) return halves(device, x, *half);
  refuse_name(name);
}

DeviceBytes halves(Device& device, DeviceFloats x, Half kind) {
  return device.engine().encode_halves(x, kind);
}

DeviceBytes efsignsgd(Device& device, DeviceFloats x) { return device.engine().encode_signs(x, 1); }
DeviceBytes onebit(Device& device, DeviceFloats x) { return device.engine().encode_signs(x, 2); }

SparseVector download(Device& device, const DeviceKept& kept) {
  SparseVector out = {.indexes = std::vector<std::uint32_t>(kept.count),
                      .values = std::vector<float>(kept.count)};
  device.engine().download(out.indexes.data(), kept.indexes, kept.count * sizeof(std::uint32_t));
  device.engine().download(out.values.data(), kept.values, kept.count * sizeof(float));
  return out;
}

Bytes download(Device& device, const DeviceBytes& bytes) {
  Bytes out(bytes.count);
  device.engine().download(out.data(), bytes.data, bytes.count);
  return out;
}

void add_decoded(Device& device, std::string_view name, DeviceBytes bytes, float* out, std::size_t elements) {
  change(device, name, bytes, out, elements, false);
}

void subtract_decoded(Device& device, std::string_view name, DeviceBytes bytes, float* from,
                      std::size_t elements) {
  change(device, name, bytes, from, elements, true);
}

Bytes encode(Device& device, std::string_view name, std::span<const float> x, State& state) {
  known(name);
  const Buffer buffer(device, x);
  const DeviceFloats floats = {.data = buffer.floats(), .count = x.size()};
  if (!is_sparse(name)) return download(device, encode_dense(device, name, floats));
  return pack(download(device, select(device, name, floats, state)));
}

}  // namespace compression::cuda
