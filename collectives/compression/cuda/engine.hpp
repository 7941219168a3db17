// Compression on a device, behind an interface in C++17 without CUDA types, because nvcc reads it too.
// EngineOn runs the same sequence of kernels on any backend: CUDA (engine.cu), or the tests' host backend.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/compression/cuda/kernels/compaction.hpp"
#include "collectives/compression/cuda/kernels/halves.hpp"
#include "collectives/compression/cuda/kernels/moments.hpp"
#include "collectives/compression/cuda/kernels/residuals.hpp"
#include "collectives/compression/cuda/kernels/sampling.hpp"
#include "collectives/compression/cuda/kernels/selection.hpp"
#include "collectives/compression/cuda/kernels/signs.hpp"

namespace compression::cuda {

/// Thrown if there is no device or its driver is missing; what() begins with "no CUDA device: ".
class NoDevice : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct DeviceInfo {
  std::string name;
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
};

/// A gradient in device memory.
struct DeviceFloats {
  const float* data = nullptr;
  std::size_t count = 0;
};

/// Kept elements in device memory; overwritten by the next selection on the same device.
struct DeviceKept {
  const std::uint32_t* indexes = nullptr;
  const float* values = nullptr;
  std::size_t count = 0;
  double mean = 0;  ///< the mean that MSTopK used, for comparisons
};

/// Signs after one or two scales, in device memory; overwritten by the next encoding on the same device.
struct DeviceBytes {
  const std::byte* data = nullptr;
  std::size_t count = 0;
};

/// Moments of the finite elements, like those of sums.hpp; all 0 if there is none.
struct DeviceMoments {
  double mean = 0;
  double deviation = 0;
};

inline constexpr std::size_t kMaxElements = std::numeric_limits<std::int32_t>::max();

/// Selections are those of collectives/compression/selectors.hpp and select.hpp. All functions return when
/// the device is done. They throw std::invalid_argument for more than kMaxElements, std::runtime_error if the
/// device fails.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  virtual DeviceInfo info() const = 0;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies within device memory.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Returns the time between two events on the device's stream, in milliseconds.
  virtual double timed_ms(const std::function<void()>& work) = 0;

  virtual DeviceKept top_k(DeviceFloats x, std::size_t k) = 0;
  virtual DeviceKept mstopk(DeviceFloats x, std::size_t k, std::uint64_t seed, int samplings) = 0;
  /// Returns every element whose magnitude_of() is at least `min`. Needs a second pass if these are more than
  /// ever before, and more than a sixteenth.
  virtual DeviceKept at_least(DeviceFloats x, std::uint32_t min) = 0;
  /// As above, but if there are more than `max` elements only their number is valid.
  virtual DeviceKept at_least(DeviceFloats x, std::uint32_t min, std::size_t max) = 0;
  /// Returns the magnitude_of() that at least `rank` elements of a sample, chosen by `seed`, reach.
  virtual std::uint32_t sampled_magnitude(DeviceFloats x, std::size_t samples, std::uint64_t seed,
                                          std::size_t rank) = 0;
  /// Returns the magnitude_of() of the k-th largest element, 0 < k < x.count: two passes, and further ones
  /// over candidates only.
  virtual std::uint32_t kth_magnitude(DeviceFloats x, std::size_t k) = 0;
  /// Needs one pass.
  virtual DeviceMoments moments(DeviceFloats x) = 0;
  virtual DeviceKept random_k(DeviceFloats x, std::size_t k, std::uint64_t seed) = 0;
  /// EFSignSGD's encoding (one scale) or OneBit's (two).
  virtual DeviceBytes encode_signs(DeviceFloats x, std::size_t scales) = 0;
  virtual DeviceBytes encode_halves(DeviceFloats x, Half kind) = 0;

  /// Returns the position of the first index that does not increase or is not below `elements`; `count` if
  /// there is none.
  virtual std::size_t first_bad_index(const std::uint32_t* indexes, std::size_t count,
                                      std::size_t elements) = 0;
  virtual void add(DeviceFloats x, float* out) = 0;
  virtual void add_kept(DeviceKept kept, float* out, bool subtracts) = 0;
  /// `values` are the values of the two signs.
  virtual void add_signs(const std::byte* signs, const float (&values)[2], float* out, std::size_t elements,
                         bool subtracts) = 0;
  virtual void add_halves(const std::byte* halves, Half kind, float* out, std::size_t elements,
                          bool subtracts) = 0;
};

/// Throws NoDevice if the program was built without CUDA or no device can run it.
std::unique_ptr<Engine> open_engine(int ordinal);

inline std::uint32_t narrowed(std::size_t count) {
  if (count > kMaxElements) throw std::invalid_argument("expected at most 2^31 - 1 elements");
  return static_cast<std::uint32_t>(count);
}

/// Device memory that grows on demand; growing discards its contents.
template <typename Backend>
class Scratch {
 public:
  explicit Scratch(Backend& backend) : backend_(backend) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { backend_.release(memory_); }

  template <typename Element>
  Element* get(std::size_t count) {
    const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(Element);
    if (bytes > bytes_) {
      backend_.release(std::exchange(memory_, nullptr));
      bytes_ = 0;
      memory_ = backend_.allocate(bytes);
      bytes_ = bytes;
    }
    return static_cast<Element*>(memory_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  Backend& backend_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Requirements of Backend: info, allocate, release, upload, download, copy, timed_ms as above; zero(memory,
/// bytes) and fill(memory, byte, bytes); run(body, blocks) with at most that many blocks.
template <typename Backend>
class EngineOn : public Engine {
 public:
  template <typename... Arguments>
  explicit EngineOn(Arguments&&... arguments) : backend_(std::forward<Arguments>(arguments)...) {}

  DeviceInfo info() const override { return backend_.info(); }
  void* allocate(std::size_t bytes) override { return backend_.allocate(std::max<std::size_t>(bytes, 1)); }
  void release(void* memory) noexcept override { backend_.release(memory); }
  void upload(void* to, const void* from, std::size_t bytes) override { backend_.upload(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override {
    backend_.download(to, from, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override { backend_.copy(to, from, bytes); }
  double timed_ms(const std::function<void()>& work) override { return backend_.timed_ms(work); }

  DeviceKept top_k(DeviceFloats x, std::size_t k) override {
    const std::uint32_t n = narrowed(x.count);
    if (k >= n) return at_least(x, 0);
    return k == 0 ? DeviceKept{} : select(x, {static_cast<std::uint32_t>(k), -1, 0});
  }

  DeviceKept mstopk(DeviceFloats x, std::size_t k, std::uint64_t seed, int samplings) override {
    if (k == 0 || k >= narrowed(x.count)) return top_k(x, k);
    return select(x, {static_cast<std::uint32_t>(k), std::max(samplings, 0), seed});
  }

  DeviceKept at_least(DeviceFloats x, std::uint32_t min) override {
    const std::size_t room = std::min(indexes_.bytes(), values_.bytes()) / sizeof(float);
    const std::size_t guess = min == 0 ? x.count : std::max(x.count / 16, room);
    const DeviceKept kept = at_least(x, min, guess);
    return kept.count > guess ? at_least(x, min, kept.count) : kept;
  }

  DeviceKept at_least(DeviceFloats x, std::uint32_t min, std::size_t max) override {
    const std::uint32_t n = narrowed(x.count);
    Progress* progress = start(n);
    const KeptOut out = kept_out(std::min<std::size_t>(max, n));
    backend_.run(KeepAtLeast{floats(x), min, tiles(n, 1, &progress->kept), out}, tiles_of(n));
    return finished(out);
  }

  std::uint32_t sampled_magnitude(DeviceFloats x, std::size_t samples, std::uint64_t seed,
                                  std::size_t rank) override {
    const std::uint32_t n = narrowed(x.count);
    const std::uint32_t count = narrowed(samples);
    Progress* progress = start(n);
    float* sample = samples_.template get<float>(samples);
    backend_.run(Sample{x.data, sample, n, count, seed}, blocks_for(count));
    const Choice source = {nullptr, {sample, count, true}, nullptr, nullptr};
    for (unsigned which = 0; which < kDigits; ++which) {
      backend_.run(CountDigits{source, progress, which}, tiles_of(count));
      const std::uint32_t first = which == 0 ? static_cast<std::uint32_t>(rank) : 0;
      backend_.run(ChooseDigit{progress, which, first, true, {}}, 1);
    }
    std::uint32_t key = 0;
    backend_.download(&key, &progress->key, sizeof key);
    return key;
  }

  std::uint32_t kth_magnitude(DeviceFloats x, std::size_t k) override {
    if (k == 0 || k >= narrowed(x.count)) throw std::invalid_argument("expected 0 < k < elements");
    find(x, {static_cast<std::uint32_t>(k), -1, 0});
    std::uint32_t key = 0;
    backend_.download(&key, &progress_.template get<Progress>(1)->key, sizeof key);
    return key;
  }

  DeviceMoments moments(DeviceFloats x) override {
    const std::uint32_t n = narrowed(x.count);
    constexpr std::uint32_t kKinds = SumMoments::kSums;
    double* sums = tile_sums_.template get<double>(kKinds * std::size_t{tiles_of(n)});
    backend_.run(SumMoments{floats(x), sums}, tiles_of(n));
    const std::uint32_t each = tiles_of(tiles_of(n));
    std::vector<double> few(kKinds * std::size_t{each});
    backend_.download(few.data(), sum_tiles(n, kKinds), few.size() * sizeof(double));
    double totals[kKinds] = {};
    for (std::size_t i = 0; i < few.size(); ++i) totals[i / each] += few[i];
    const double count = totals[2];
    if (count == 0) return {};
    const double mean = totals[0] / count;
    return {mean, std::sqrt(std::max(0.0, totals[1] / count - mean * mean))};
  }

  DeviceKept random_k(DeviceFloats x, std::size_t k, std::uint64_t seed) override {
    const std::uint32_t n = narrowed(x.count);
    if (k == 0 || k >= n) return top_k(x, k);
    const auto count = static_cast<std::uint32_t>(k);
    std::uint32_t slots = 2;
    while (slots < 2 * count && slots <= kMaxElements) slots *= 2;  // at most 2^31, which is more than k
    Progress* progress = start(n);
    const Floyd floyd = {n, count, seed, table_.template get<std::uint64_t>(slots), slots};
    const std::size_t words = n / 32 + 1;
    auto* bits = samples_.template get<std::uint32_t>(words);
    backend_.fill(floyd.table, 0xff, slots * sizeof(std::uint64_t));
    backend_.fill(bits, 0, words * sizeof(std::uint32_t));
    backend_.run(FillTable{floyd}, blocks_for(count));
    backend_.run(MarkSampled{floyd, bits}, blocks_for(count));
    const KeptOut out = kept_out(k);
    backend_.run(KeepMarked{{x.data, bits, n}, tiles(n, 1, &progress->kept), out}, tiles_of(n));
    return finished(out);
  }

  DeviceBytes encode_signs(DeviceFloats x, std::size_t scales) override {
    const std::uint32_t n = narrowed(x.count);
    const std::uint32_t kinds = scales == 1 ? 1 : 3;
    const std::size_t header = scales * sizeof(float);
    const std::size_t bytes = header + n / 8 + (n % 8 != 0 ? 1 : 0);
    auto* to = encoded_.template get<std::uint8_t>(bytes);
    double* sums = tile_sums_.template get<double>(kinds * std::size_t{tiles_of(n)});
    if (kinds == 1)
      backend_.run(TakeSigns<1>{floats(x), to + header, sums}, tiles_of(n));
    else
      backend_.run(TakeSigns<3>{floats(x), to + header, sums}, tiles_of(n));
    const double* few = sum_tiles(n, kinds);
    backend_.run(PutScales{few, tiles_of(tiles_of(n)), kinds, n, reinterpret_cast<float*>(to)}, 1);
    backend_.synchronize();
    return {reinterpret_cast<const std::byte*>(to), bytes};
  }

  DeviceBytes encode_halves(DeviceFloats x, Half kind) override {
    const std::uint32_t n = narrowed(x.count);
    auto* to = encoded_.template get<std::uint16_t>(n);
    backend_.run(TakeHalves{floats(x), to, kind}, tiles_of(n));
    backend_.synchronize();
    return {reinterpret_cast<const std::byte*>(to), n * sizeof *to};
  }

  std::size_t first_bad_index(const std::uint32_t* indexes, std::size_t count,
                              std::size_t elements) override {
    Progress* progress = start(0);
    const std::uint32_t n = narrowed(elements);
    backend_.run(CheckIndexes{indexes, narrowed(count), n, progress}, blocks_for(count));
    std::uint32_t first_bad = 0;
    backend_.download(&first_bad, &progress->first_bad, sizeof first_bad);
    return first_bad == 0 ? count : ~first_bad;
  }

  void add(DeviceFloats x, float* out) override {
    const std::uint32_t n = narrowed(x.count);
    const Floats from = floats(x);
    backend_.run(AddFloats{from, out, from.is_aligned && is_aligned(out)}, tiles_of(n));
    backend_.synchronize();
  }

  void add_kept(DeviceKept kept, float* out, bool subtracts) override {
    const std::uint32_t count = narrowed(kept.count);
    backend_.run(AddKept{kept.indexes, kept.values, count, out, subtracts}, blocks_for(count));
    backend_.synchronize();
  }

  void add_signs(const std::byte* signs, const float (&values)[2], float* out, std::size_t elements,
                 bool subtracts) override {
    const std::uint32_t n = narrowed(elements);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(signs);
    backend_.run(AddSigns{bytes, {values[0], values[1]}, out, n, is_aligned(out), subtracts}, tiles_of(n));
    backend_.synchronize();
  }

  void add_halves(const std::byte* halves, Half kind, float* out, std::size_t elements,
                  bool subtracts) override {
    const std::uint32_t n = narrowed(elements);
    const bool both = is_aligned(out) && reinterpret_cast<std::uintptr_t>(halves) % sizeof(HalfQuad) == 0;
    const auto* from = reinterpret_cast<const std::uint16_t*>(halves);
    backend_.run(AddHalves{from, out, n, kind, both, subtracts}, tiles_of(n));
    backend_.synchronize();
  }

 private:
  static bool is_aligned(const float* data) {
    return reinterpret_cast<std::uintptr_t>(data) % sizeof(Quad) == 0;
  }
  static Floats floats(DeviceFloats x) { return {x.data, narrowed(x.count), is_aligned(x.data)}; }
  static std::uint32_t blocks_for(std::size_t threads) {
    return static_cast<std::uint32_t>((threads + kThreads - 1) / kThreads);
  }

  /// Resets the progress of a call: nothing known, no tile taken.
  Progress* start(std::uint32_t n) {
    auto* progress = progress_.template get<Progress>(1);
    backend_.fill(progress, 0, sizeof(Progress));
    const std::size_t words = 2 * std::size_t{tiles_of(n)};
    backend_.fill(tile_words_.template get<std::uint64_t>(words), 0, words * sizeof(std::uint64_t));
    return progress;
  }

  /// For the first or second compaction of a call.
  Tiles tiles(std::uint32_t n, unsigned which, std::uint32_t* kept) {
    const std::size_t words = tiles_of(n);
    auto* progress = progress_.template get<Progress>(1);
    return {tile_words_.template get<std::uint64_t>(2 * words) + which * words, progress->next_tile + which,
            kept};
  }

  KeptOut kept_out(std::size_t capacity) {
    return {indexes_.template get<std::uint32_t>(capacity), values_.template get<float>(capacity),
            static_cast<std::uint32_t>(capacity)};
  }

  DeviceKept finished(const KeptOut& out) {
    const auto* progress = progress_.template get<Progress>(1);
    Progress done = {};
    constexpr std::size_t kCounts = sizeof done.counts;
    backend_.download(reinterpret_cast<char*>(&done) + kCounts,
                      reinterpret_cast<const char*>(progress) + kCounts, sizeof done - kCounts);
    return {out.indexes, out.values, done.kept, done.mean};
  }

  /// Reduces the sums of single tiles to sums of kTile tiles each.
  const double* sum_tiles(std::uint32_t n, std::uint32_t kinds) {
    const std::uint32_t tiles = tiles_of(n);
    const std::uint32_t few = kinds * tiles_of(tiles);
    double* sums = sums_.template get<double>(few);
    backend_.run(SumTiles{tile_sums_.template get<double>(kinds * std::size_t{tiles}), sums, tiles, kinds},
                 few);
    return sums;
  }

  /// For 0 < k < x.count: one pass counts the leading bits, one pass takes candidates, and the rest works on
  /// candidates only (or, if these are many, takes two full passes and one or two more).
  DeviceKept select(DeviceFloats x, const Wanted& wanted) {
    const Choice source = find(x, wanted);
    const std::uint32_t n = narrowed(x.count);
    auto* progress = progress_.template get<Progress>(1);
    if (wanted.samplings >= 0) {
      backend_.run(CountBrackets{source, progress}, tiles_of(n));
      backend_.run(DrawWindow{progress, wanted}, 1);
    }
    const KeptOut out = kept_out(wanted.k);
    backend_.run(Keep{source, progress, tiles(n, 1, &progress->kept), out}, tiles_of(n));
    return finished(out);
  }

  /// Finds the deciding magnitude, and where to look for the elements that reach it.
  Choice find(DeviceFloats x, const Wanted& wanted) {
    const Floats all = floats(x);
    const std::uint32_t n = all.count;
    const std::uint32_t capacity = n / 4;
    const KeptOut candidates = {candidate_indexes_.template get<std::uint32_t>(capacity),
                                candidate_values_.template get<float>(capacity), capacity};
    Progress* progress = start(n);
    backend_.run(Survey{all, progress, tile_sums_.template get<double>(tiles_of(n))}, tiles_of(n));
    const double* few = sum_tiles(n, 1);
    backend_.run(Settle{progress, few, tiles_of(tiles_of(n)), n, capacity, wanted}, 1);
    backend_.run(TakeCandidates{all, progress, tiles(n, 0, &progress->candidates), candidates}, tiles_of(n));
    const Choice source = {progress, all, candidates.values, candidates.indexes};
    for (unsigned which = 1; which < kDigits; ++which) {
      backend_.run(CountDigits{source, progress, which}, tiles_of(n));
      backend_.run(ChooseDigit{progress, which, 0, false, wanted}, 1);
    }
    return source;
  }

  Backend backend_;
  Scratch<Backend> progress_{backend_};
  Scratch<Backend> tile_words_{backend_};
  Scratch<Backend> tile_sums_{backend_};
  Scratch<Backend> sums_{backend_};
  Scratch<Backend> candidate_indexes_{backend_};
  Scratch<Backend> candidate_values_{backend_};
  Scratch<Backend> indexes_{backend_};
  Scratch<Backend> values_{backend_};
  Scratch<Backend> samples_{backend_};
  Scratch<Backend> table_{backend_};
  Scratch<Backend> encoded_{backend_};
};

}  // namespace compression::cuda
