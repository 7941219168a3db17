#include "training/clusters.hpp"

#include <algorithm>

#include "sim/draws.hpp"

namespace training {
namespace {

enum class For : std::uint64_t { centre, batch, held_out };

Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

float normal(std::uint64_t bits) { return static_cast<float>(sim::standard_normal(bits)); }

/// From 0 to count - 1.
std::size_t below(std::size_t count, std::uint64_t bits) {
  return std::min(count - 1, static_cast<std::size_t>(sim::uniform(bits) * static_cast<double>(count)));
}

/// Of the classes first, first + step, ...
std::uint32_t pick_class(std::size_t classes, std::size_t first, std::size_t step, std::uint64_t bits) {
  const std::size_t count = (classes - first + step - 1) / step;
  return static_cast<std::uint32_t>(first + step * below(count, bits));
}

/// A point of one of the clusters of the class.
void draw_sample(const Clusters& clusters, const Matrix<float>& centres, std::uint32_t label,
                 std::uint64_t state, Eigen::Ref<Vector<float>> sample) {
  const std::size_t cluster = label * clusters.per_class + below(clusters.per_class, sim::hash_on(state, 0));
  for (std::size_t i = 0; i < clusters.dimensions; ++i)
    sample[index(i)] = centres(index(i), index(cluster)) + normal(sim::hash_on(state, i + 1));
}

}  // namespace

Matrix<float> centres(const Clusters& clusters) {
  Matrix<float> out(index(clusters.dimensions), index(clusters.classes * clusters.per_class));
  for (Eigen::Index i = 0; i < out.size(); ++i)
    out.data()[i] = static_cast<float>(clusters.spread) * normal(sim::hash(clusters.seed, For::centre, i));
  return out;
}

Batch<float> draw_batch(const Clusters& clusters, const Matrix<float>& centres, const Draw& draw) {
  Batch<float> out{Matrix<float>(index(clusters.dimensions), index(draw.samples)), {}};
  const std::uint64_t batch = sim::hash(clusters.seed, For::batch, draw.worker, draw.iteration);
  for (std::size_t i = 0; i < draw.samples; ++i) {
    const std::uint64_t sample = sim::hash_on(batch, i);
    const bool own = draw.worker < clusters.classes && sim::uniform(sim::hash_on(sample, 0)) < clusters.skew;
    out.labels.push_back(
        pick_class(clusters.classes, own ? draw.worker : 0, own ? draw.workers : 1, sim::hash_on(sample, 1)));
    draw_sample(clusters, centres, out.labels.back(), sim::hash_on(sample, 2), out.inputs.col(index(i)));
  }
  return out;
}

Batch<float> draw_held_out(const Clusters& clusters, const Matrix<float>& centres, std::size_t samples) {
  Batch<float> out{Matrix<float>(index(clusters.dimensions), index(samples)), {}};
  for (std::size_t i = 0; i < samples; ++i) {
    out.labels.push_back(static_cast<std::uint32_t>(i % clusters.classes));
    draw_sample(clusters, centres, out.labels.back(), sim::hash(clusters.seed, For::held_out, i),
                out.inputs.col(index(i)));
  }
  return out;
}

}  // namespace training
