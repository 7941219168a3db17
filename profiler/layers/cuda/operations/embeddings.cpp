// Embeddings of tokens and positions as features, by own kernels.

#include <cmath>

#include "profiler/layers/cuda/operations/moves.hpp"

namespace profiler::cuda {
namespace {

class Embedded : public Operation {
 public:
  explicit Embedded(const Pass& pass)
      : pass_(pass),
        table_(pass.as<core::Embedding>()),
        factor_(table_.scaled ? std::sqrt(static_cast<float>(table_.features)) : 1.0F) {}
  void forward() override {
    pass_.kernels().embed(pass_.type(), pass_.tokens, pass_.weights[0], pass_.output, pass_.in_count(),
                          table_.features, factor_);
  }
  void backward() override {
    const Sink& to = pass_.weight_gradients[0];
    if (!to.add)
      pass_.device->runtime().zero(
          to.data, static_cast<std::size_t>(byte_offset(pass_, table_.entries * table_.features)));
    pass_.kernels().embed_back(pass_.type(), pass_.tokens, pass_.output_gradient, to.data, pass_.in_count(),
                               table_.features, factor_);
  }

 private:
  const Pass& pass_;
  const core::Embedding& table_;
  float factor_;
};

class Positions : public Operation {
 public:
  explicit Positions(const Pass& pass) : pass_(pass), count_(core::element_count(pass.out())) {}
  void forward() override {
    MoveMaker maker;
    maker.add(pass_.batch, 0, count_);
    maker.add(count_, 1, 1);
    pass_.kernels().move(pass_.type(), maker.made(), pass_.weights[0], {pass_.output, false});
  }
  /// Rows of the table that no position uses get no gradient.
  void backward() override {
    const Sink& to = pass_.weight_gradients[0];
    const auto& table = pass_.as<core::Embedding>();
    const std::int64_t all = table.entries * table.features;
    if (!to.add && all > count_)
      pass_.device->runtime().zero(static_cast<char*>(to.data) + byte_offset(pass_, count_),
                                   static_cast<std::size_t>(byte_offset(pass_, all - count_)));
    pass_.kernels().sum_rows(pass_.type(), pass_.output_gradient, to, pass_.batch, count_);
  }

 private:
  const Pass& pass_;
  std::int64_t count_;
};

/// Alternating sines and cosines of angles that decrease with the feature.
std::vector<float> encoding(std::int64_t length, std::int64_t features) {
  constexpr double kBase = 10'000;
  std::vector<float> out;
  for (std::int64_t at = 0; at < length; ++at)
    for (std::int64_t i = 0; i < features; ++i) {
      const auto pair = static_cast<double>(i / 2 * 2);
      const double angle = static_cast<double>(at) * std::pow(kBase, -pair / static_cast<double>(features));
      out.push_back(static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  return out;
}

class Encoding : public Operation {
 public:
  explicit Encoding(const Pass& pass) : pass_(pass) {}
  void prepare() override {
    const std::vector<float> table = encoding(pass_.out()[0], pass_.out()[1]);
    pass_.device->runtime().upload(pass_.kept, table.data(), table.size() * sizeof(float));
  }
  void forward() override {
    pass_.kernels().add_table(pass_.type(), pass_.inputs[0], static_cast<const float*>(pass_.kept),
                              pass_.output, pass_.out_count(), core::element_count(pass_.out()));
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().accumulate(pass_.type(), pass_.output_gradient, to, pass_.out_count());
  }

 private:
  const Pass& pass_;
};

std::int64_t pairs_of(const LayerWork& work) {
  return work.layer->output[1] / std::get<core::Rotary>(work.layer->parameters).heads / 2;
}

/// A position's cosines, then its sines.
std::vector<float> angles(std::int64_t length, std::int64_t pairs, double base) {
  std::vector<float> out;
  for (std::int64_t at = 0; at < length; ++at) {
    const auto angle = [&](std::int64_t i) {
      return static_cast<double>(at) * std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
    };
    for (std::int64_t i = 0; i < pairs; ++i) out.push_back(static_cast<float>(std::cos(angle(i))));
    for (std::int64_t i = 0; i < pairs; ++i) out.push_back(static_cast<float>(std::sin(angle(i))));
  }
  return out;
}

class RotaryOperation : public Operation {
 public:
  explicit RotaryOperation(const Pass& pass) : pass_(pass) {
    rotation_.length = pass.out()[0];
    rotation_.rows = pass.batch * rotation_.length;
    rotation_.heads = pass.as<core::Rotary>().heads;
    rotation_.pairs = pairs_of(*pass.work);
  }
  void prepare() override {
    const std::vector<float> table = angles(rotation_.length, rotation_.pairs, pass_.as<core::Rotary>().base);
    pass_.device->runtime().upload(pass_.kept, table.data(), table.size() * sizeof(float));
  }
  void forward() override { rotate(1, pass_.inputs[0], {pass_.output, false}); }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr) rotate(-1, pass_.output_gradient, to);
  }

 private:
  void rotate(float direction, const void* from, Sink to) {
    rotation_.direction = direction;
    pass_.kernels().rotate(pass_.type(), rotation_, from, static_cast<const float*>(pass_.kept), to);
  }

  const Pass& pass_;
  Rotation rotation_;
};

constexpr auto kFloat = static_cast<double>(sizeof(float));

}  // namespace

std::unique_ptr<Operation> embedding(const Pass& pass) { return std::make_unique<Embedded>(pass); }
std::unique_ptr<Operation> position_embedding(const Pass& pass) { return std::make_unique<Positions>(pass); }
std::unique_ptr<Operation> positional_encoding(const Pass& pass) { return std::make_unique<Encoding>(pass); }
std::unique_ptr<Operation> rotary(const Pass& pass) { return std::make_unique<RotaryOperation>(pass); }

Room positional_encoding_room(const LayerWork& work, double /*batch*/, const Arithmetic& /*arithmetic*/) {
  return {.kept = kFloat * static_cast<double>(core::element_count(work.layer->output))};
}

Room rotary_room(const LayerWork& work, double /*batch*/, const Arithmetic& /*arithmetic*/) {
  return {.kept =
              2 * kFloat * static_cast<double>(work.layer->output[0]) * static_cast<double>(pairs_of(work))};
}

}  // namespace profiler::cuda
