// lookahead, by own kernels; cross_entropy: the logarithms of the softmax by cuDNN, the loss by own kernels.

#include "profiler/layers/cuda/operations/descriptors.hpp"

namespace profiler::cuda {
namespace {

class LookaheadOperation : public Operation {
 public:
  explicit LookaheadOperation(const Pass& pass) : pass_(pass) {
    ahead_ = {pass.batch, pass.in()[0], pass.in()[1], pass.as<core::Lookahead>().context + 1};
  }
  void forward() override {
    pass_.kernels().ahead(pass_.type(), ahead_, pass_.inputs[0], pass_.weights[0], pass_.output);
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().ahead_back(pass_.type(), ahead_, pass_.output_gradient, pass_.weights[0], to);
    pass_.kernels().ahead_weight(pass_.type(), ahead_, pass_.inputs[0], pass_.output_gradient,
                                 pass_.weight_gradients[0]);
  }

 private:
  const Pass& pass_;
  LookaheadSizes ahead_;
};

class CrossEntropy : public Operation {
 public:
  explicit CrossEntropy(const Pass& pass) : pass_(pass), device_(*pass.device) {
    const std::int64_t classes = pass.in().back();
    const std::int64_t rows = pass.in_count() / classes;
    loss_ = {pass.batch, rows / pass.batch, classes, static_cast<float>(pass.as<core::Loss>().weight)};
    rows_ = tensor_of(device_, rows, classes, 1, 1);
  }
  void forward() override {
    if (pass_.is_mostly_own())
      pass_.kernels().log_softmax(pass_.type(), pass_.inputs[0], pass_.kept, loss_.batch * loss_.positions,
                                  loss_.classes);
    else
      FUSEWISE_CALL(device_, cudnnSoftmaxForward, device_.dnn(), CUDNN_SOFTMAX_LOG,
                    CUDNN_SOFTMAX_MODE_INSTANCE, &kOne, rows_.get(), pass_.inputs[0], &kZero, rows_.get(),
                    pass_.kept);
    pass_.kernels().loss(pass_.type(), loss_, pass_.kept, pass_.tokens, pass_.output);
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().loss_back(pass_.type(), loss_, pass_.kept, pass_.tokens, pass_.output_gradient, to);
  }

 private:
  const Pass& pass_;
  Device& device_;
  Loss loss_;
  Tensor rows_;
};

}  // namespace

std::unique_ptr<Operation> lookahead(const Pass& pass) { return std::make_unique<LookaheadOperation>(pass); }
std::unique_ptr<Operation> cross_entropy(const Pass& pass) { return std::make_unique<CrossEntropy>(pass); }

Room cross_entropy_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  return {.kept = batch * static_cast<double>(core::element_count(work.inputs[0].shape)) *
                  static_cast<double>(arithmetic.bytes())};
}

}  // namespace profiler::cuda
