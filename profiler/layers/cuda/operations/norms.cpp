// Normalization: of channels over the batch and over neighbouring channels by cuDNN, of rows by own kernels.

#include <algorithm>

#include "profiler/layers/cuda/operations/descriptors.hpp"

namespace profiler::cuda {
namespace {

constexpr auto kFloat = static_cast<double>(sizeof(float));

class BatchNorm : public Operation {
 public:
  explicit BatchNorm(const Pass& pass)
      : pass_(pass),
        device_(*pass.device),
        channels_(pass.work->weights[0].shape[0]),
        in_(pass.in().size() == 3 ? images(pass, pass.in())
                                  : tensor_of(device_, pass.in_count() / channels_, channels_, 1, 1)),
        channel_(tensor_of(device_, CUDNN_DATA_FLOAT, 1, channels_, 1, 1)),
        epsilon_(pass.as<core::Norm>().epsilon) {}

  void forward() override {
    FUSEWISE_CALL(device_, cudnnBatchNormalizationForwardTraining, device_.dnn(), CUDNN_BATCHNORM_SPATIAL,
                  &kOne, &kZero, in_.get(), pass_.inputs[0], in_.get(), pass_.output, channel_.get(),
                  pass_.weights[0], pass_.weights[1], 1.0, nullptr, nullptr, epsilon_, kept(0), kept(1));
  }
  /// cuDNN always computes the input's gradient; if it is not needed, it is written to the scratch.
  void backward() override {
    const Sink& wanted = pass_.input_gradients[0];
    const Sink to = wanted.data != nullptr ? wanted : Sink{pass_.scratch, false};
    FUSEWISE_CALL(device_, cudnnBatchNormalizationBackward, device_.dnn(), CUDNN_BATCHNORM_SPATIAL, &kOne,
                  blend(to), &kOne, blend(pass_.weight_gradients[0]), in_.get(), pass_.inputs[0], in_.get(),
                  pass_.output_gradient, in_.get(), to.data, channel_.get(), pass_.weights[0],
                  pass_.weight_gradients[0].data, pass_.weight_gradients[1].data, epsilon_, kept(0), kept(1));
  }

 private:
  /// Means, then inverse deviations.
  float* kept(std::int64_t which) const { return static_cast<float*>(pass_.kept) + which * channels_; }

  const Pass& pass_;
  Device& device_;
  std::int64_t channels_;
  Tensor in_;
  Tensor channel_;
  double epsilon_;
};

Channels channels_of(const Pass& pass) {
  const core::Shape& in = pass.in();
  if (in.size() == 3) return {pass.batch, in[0], in[1] * in[2]};
  return {pass.in_count() / in.back(), in.back(), 1};
}

class OwnBatchNorm : public Operation {
 public:
  explicit OwnBatchNorm(const Pass& pass) : pass_(pass), channels_(channels_of(pass)) {}

  void forward() override {
    pass_.kernels().channel_norm(pass_.type(), channels_, parts_of(channels_),
                                 static_cast<float>(pass_.as<core::Norm>().epsilon), pass_.inputs[0],
                                 weight(0), weight(1), pass_.output, kept(), partial());
  }
  void backward() override {
    pass_.kernels().channel_norm_back(pass_.type(), channels_, parts_of(channels_), pass_.inputs[0],
                                      pass_.output_gradient, weight(0), kept(), sums(), partial(),
                                      pass_.input_gradients[0], pass_.weight_gradients[0],
                                      pass_.weight_gradients[1]);
  }

 private:
  const float* weight(std::size_t i) const { return static_cast<const float*>(pass_.weights[i]); }
  float* kept() const { return static_cast<float*>(pass_.kept); }
  float* sums() const { return static_cast<float*>(pass_.scratch); }
  float* partial() const { return sums() + 2 * channels_.channels; }

  const Pass& pass_;
  Channels channels_;
};

class LocalNorm : public Operation {
 public:
  explicit LocalNorm(const Pass& pass)
      : pass_(pass),
        device_(*pass.device),
        in_(images(pass, pass.in())),
        norm_(device_.make(device_.libraries().cudnnCreateLRNDescriptor,
                           device_.libraries().cudnnDestroyLRNDescriptor, "cudnnCreateLRNDescriptor")) {
    const auto& norm = pass.as<core::LocalResponseNorm>();
    if (norm.size % 2 == 0 || norm.size > CUDNN_LRN_MAX_N)
      throw core::InputError(fmt::format("{}: expected an odd size of at most {} with --backend cuda, got {}",
                                         device_.at(), CUDNN_LRN_MAX_N, norm.size));
    FUSEWISE_CALL(device_, cudnnSetLRNDescriptor, norm_.get(), static_cast<unsigned>(norm.size), norm.alpha,
                  norm.beta, norm.k);
  }
  void forward() override {
    FUSEWISE_CALL(device_, cudnnLRNCrossChannelForward, device_.dnn(), norm_.get(),
                  CUDNN_LRN_CROSS_CHANNEL_DIM1, &kOne, in_.get(), pass_.inputs[0], &kZero, in_.get(),
                  pass_.output);
  }
  void backward() override {
    const Sink& to = pass_.input_gradients[0];
    if (to.data == nullptr) return;
    FUSEWISE_CALL(device_, cudnnLRNCrossChannelBackward, device_.dnn(), norm_.get(),
                  CUDNN_LRN_CROSS_CHANNEL_DIM1, &kOne, in_.get(), pass_.output, in_.get(),
                  pass_.output_gradient, in_.get(), pass_.inputs[0], blend(to), in_.get(), to.data);
  }

 private:
  const Pass& pass_;
  Device& device_;
  Tensor in_;
  Dnn<cudnnLRNDescriptor_t> norm_;
};

class OwnLocalNorm : public Operation {
 public:
  explicit OwnLocalNorm(const Pass& pass) : pass_(pass), channels_(channels_of(pass)) {
    const auto& norm = pass.as<core::LocalResponseNorm>();
    neighbours_ = {norm.size / 2, (norm.size - 1) / 2,
                   static_cast<float>(norm.alpha / static_cast<double>(norm.size)),
                   static_cast<float>(norm.beta), static_cast<float>(norm.k)};
  }
  void forward() override {
    pass_.kernels().neighbour_norm(pass_.type(), channels_, neighbours_, pass_.inputs[0], pass_.output,
                                   kept());
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().neighbour_norm_back(pass_.type(), channels_, neighbours_, pass_.inputs[0],
                                          pass_.output_gradient, kept(), to);
  }

 private:
  float* kept() const { return static_cast<float*>(pass_.kept); }

  const Pass& pass_;
  Channels channels_;
  Neighbours neighbours_;
};

/// Rows are summed in at most this many parts, each by its own threads.
constexpr std::int64_t kMaxParts = 256;

class RowNormOperation : public Operation {
 public:
  explicit RowNormOperation(const Pass& pass) : pass_(pass) {
    norm_.features = pass.in().back();
    norm_.rows = pass.in_count() / norm_.features;
    norm_.epsilon = static_cast<float>(pass.as<core::Norm>().epsilon);
    norm_.has_mean = pass.layer().kind == core::LayerKind::layer_norm;
  }
  void forward() override {
    pass_.kernels().row_norm(pass_.type(), norm_, pass_.inputs[0], pass_.weights[0],
                             norm_.has_mean ? pass_.weights[1] : nullptr, pass_.output, kept());
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().row_norm_back(pass_.type(), norm_, pass_.inputs[0], pass_.output_gradient,
                                    pass_.weights[0], kept(), to);
    pass_.kernels().row_norm_weights(pass_.type(), norm_, pass_.inputs[0], pass_.output_gradient, kept(),
                                     static_cast<float*>(pass_.scratch), std::min(norm_.rows, kMaxParts),
                                     pass_.weight_gradients[0],
                                     norm_.has_mean ? pass_.weight_gradients[1] : Sink{});
  }

 private:
  float* kept() const { return static_cast<float*>(pass_.kept); }

  const Pass& pass_;
  RowNorm norm_;
};

}  // namespace

std::unique_ptr<Operation> batch_norm(const Pass& pass) {
  if (pass.is_mostly_own()) return std::make_unique<OwnBatchNorm>(pass);
  return std::make_unique<BatchNorm>(pass);
}

Room batch_norm_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  const double elements = batch * static_cast<double>(core::element_count(work.inputs[0].shape));
  const std::int64_t channels = work.weights[0].shape[0];
  const double of_channels = 2 * kFloat * static_cast<double>(channels);
  if (arithmetic.is_mostly_own) {
    const auto parts =
        static_cast<double>(parts_of({1, channels, static_cast<std::int64_t>(elements) / channels}));
    return {.kept = of_channels, .scratch = of_channels * (1 + parts)};
  }
  return {.kept = of_channels,
          .scratch = work.inputs[0].wants_gradient ? 0 : elements * static_cast<double>(arithmetic.bytes())};
}

std::unique_ptr<Operation> lrn(const Pass& pass) {
  if (pass.is_mostly_own()) return std::make_unique<OwnLocalNorm>(pass);
  return std::make_unique<LocalNorm>(pass);
}

Room lrn_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  if (!arithmetic.is_mostly_own) return {};
  return {.kept = batch * static_cast<double>(core::element_count(work.layer->output)) * kFloat};
}

std::unique_ptr<Operation> row_norm(const Pass& pass) { return std::make_unique<RowNormOperation>(pass); }

Room row_norm_room(const LayerWork& work, double batch, const Arithmetic& /*arithmetic*/) {
  const auto features = static_cast<double>(work.inputs[0].shape.back());
  const double rows = batch * static_cast<double>(core::element_count(work.inputs[0].shape)) / features;
  return {.kept = 2 * kFloat * rows, .scratch = 2 * kFloat * static_cast<double>(kMaxParts) * features};
}

}  // namespace profiler::cuda
