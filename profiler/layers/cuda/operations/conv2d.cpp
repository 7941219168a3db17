// conv2d by cuDNN, with the fastest algorithm that fits into the workspace.

#include <array>

#include "profiler/layers/cuda/operations/moves.hpp"

namespace profiler::cuda {
namespace {

/// A search finds each algorithm in two kinds of arithmetic.
constexpr std::size_t kBothMaths = 2;

/// One per direction, because the best algorithm may need another kind of arithmetic in each.
using Convolution = Dnn<cudnnConvolutionDescriptor_t>;

/// Returns the fastest algorithm. A search tries cuDNN's default arithmetic, which may be TF32, besides the
/// requested one; if plain float32 is requested, algorithms timed in it have priority.
template <typename Performance>
const Performance& best(const Device& device, const Performance* found, int count, const char* function) {
  const bool is_plain = device.dnn_math() == CUDNN_FMA_MATH;
  const Performance* other = nullptr;
  for (int i = 0; i < count; ++i) {
    if (found[i].status != CUDNN_STATUS_SUCCESS || found[i].memory > kWorkspaceBytes) continue;
    if (!is_plain || found[i].mathType == CUDNN_FMA_MATH) return found[i];
    if (other == nullptr) other = &found[i];
  }
  if (other != nullptr) return *other;
  device.check(count > 0 ? found[0].status : CUDNN_STATUS_NOT_SUPPORTED, function);
  throw core::EnvironmentError(
      fmt::format("{}: {}: every algorithm needs more than its workspace", device.at(), function));
}

class Conv2dOperation : public Operation {
 public:
  explicit Conv2dOperation(const Pass& pass)
      : pass_(pass),
        device_(*pass.device),
        conv_(pass.as<core::Conv2d>()),
        in_(images(pass, pass.in())),
        out_(images(pass, pass.out())),
        bias_(tensor_of(device_, 1, conv_.out_channels, 1, 1)),
        filter_(device_.make(device_.libraries().cudnnCreateFilterDescriptor,
                             device_.libraries().cudnnDestroyFilterDescriptor,
                             "cudnnCreateFilterDescriptor")),
        forward_(convolution()),
        data_(convolution()),
        weights_(convolution()) {
    FUSEWISE_CALL(device_, cudnnSetFilter4dDescriptor, filter_.get(), device_.dnn_type(), CUDNN_TENSOR_NCHW,
                  narrow(device_, conv_.out_channels), narrow(device_, pass.in()[0] / conv_.groups),
                  narrow(device_, conv_.kernel.height), narrow(device_, conv_.kernel.width));
  }

  /// The searches overwrite their outputs, which hold nothing yet.
  void prepare() override {
    int count = 0;
    std::array<cudnnConvolutionFwdAlgoPerf_t, kBothMaths * CUDNN_CONVOLUTION_FWD_ALGO_COUNT> forward{};
    FUSEWISE_CALL(device_, cudnnFindConvolutionForwardAlgorithmEx, device_.dnn(), in_.get(), pass_.inputs[0],
                  filter_.get(), pass_.weights[0], forward_.get(), out_.get(), pass_.output,
                  static_cast<int>(forward.size()), &count, forward.data(), device_.workspace(),
                  kWorkspaceBytes);
    take(best(device_, forward.data(), count, "cudnnFindConvolutionForwardAlgorithmEx"), forward_,
         forward_algorithm_);
    if (pass_.input_gradients[0].data != nullptr) {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, kBothMaths * CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT>
          data{};
      FUSEWISE_CALL(device_, cudnnFindConvolutionBackwardDataAlgorithmEx, device_.dnn(), filter_.get(),
                    pass_.weights[0], out_.get(), pass_.output_gradient, data_.get(), in_.get(),
                    pass_.input_gradients[0].data, static_cast<int>(data.size()), &count, data.data(),
                    device_.workspace(), kWorkspaceBytes);
      take(best(device_, data.data(), count, "cudnnFindConvolutionBackwardDataAlgorithmEx"), data_,
           data_algorithm_);
    }
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kBothMaths * CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT>
        weights{};
    FUSEWISE_CALL(device_, cudnnFindConvolutionBackwardFilterAlgorithmEx, device_.dnn(), in_.get(),
                  pass_.inputs[0], out_.get(), pass_.output_gradient, weights_.get(), filter_.get(),
                  pass_.weight_gradients[0].data, static_cast<int>(weights.size()), &count, weights.data(),
                  device_.workspace(), kWorkspaceBytes);
    take(best(device_, weights.data(), count, "cudnnFindConvolutionBackwardFilterAlgorithmEx"), weights_,
         weights_algorithm_);
  }

  void forward() override {
    FUSEWISE_CALL(device_, cudnnConvolutionForward, device_.dnn(), &kOne, in_.get(), pass_.inputs[0],
                  filter_.get(), pass_.weights[0], forward_.get(), forward_algorithm_, device_.workspace(),
                  kWorkspaceBytes, &kZero, out_.get(), pass_.output);
    if (!conv_.bias) return;
    if (pass_.is_mostly_own())
      pass_.kernels().move(pass_.type(), bias_moves(), pass_.weights[1], {pass_.output, true});
    else
      FUSEWISE_CALL(device_, cudnnAddTensor, device_.dnn(), &kOne, bias_.get(), pass_.weights[1], &kOne,
                    out_.get(), pass_.output);
  }

  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      FUSEWISE_CALL(device_, cudnnConvolutionBackwardData, device_.dnn(), &kOne, filter_.get(),
                    pass_.weights[0], out_.get(), pass_.output_gradient, data_.get(), data_algorithm_,
                    device_.workspace(), kWorkspaceBytes, blend(to), in_.get(), to.data);
    const Sink& weights = pass_.weight_gradients[0];
    FUSEWISE_CALL(device_, cudnnConvolutionBackwardFilter, device_.dnn(), &kOne, in_.get(), pass_.inputs[0],
                  out_.get(), pass_.output_gradient, weights_.get(), weights_algorithm_, device_.workspace(),
                  kWorkspaceBytes, blend(weights), filter_.get(), weights.data);
    if (!conv_.bias) return;
    const Sink& bias = pass_.weight_gradients[1];
    const core::Shape& out = pass_.out();
    if (pass_.is_mostly_own()) {
      const Channels channels = {pass_.batch, out[0], out[1] * out[2]};
      return pass_.kernels().sum_channels(pass_.type(), channels, parts_of(channels), pass_.output_gradient,
                                          static_cast<float*>(device_.workspace()), bias);
    }
    FUSEWISE_CALL(device_, cudnnConvolutionBackwardBias, device_.dnn(), &kOne, out_.get(),
                  pass_.output_gradient, blend(bias), bias_.get(), bias.data);
  }

 private:
  Convolution convolution() {
    Convolution out = device_.make(device_.libraries().cudnnCreateConvolutionDescriptor,
                                   device_.libraries().cudnnDestroyConvolutionDescriptor,
                                   "cudnnCreateConvolutionDescriptor");
    FUSEWISE_CALL(device_, cudnnSetConvolution2dDescriptor, out.get(), narrow(device_, conv_.padding.height),
                  narrow(device_, conv_.padding.width), narrow(device_, conv_.stride.height),
                  narrow(device_, conv_.stride.width), narrow(device_, conv_.dilation.height),
                  narrow(device_, conv_.dilation.width), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    FUSEWISE_CALL(device_, cudnnSetConvolutionGroupCount, out.get(), narrow(device_, conv_.groups));
    FUSEWISE_CALL(device_, cudnnSetConvolutionMathType, out.get(), device_.dnn_math());
    return out;
  }

  /// Broadcasts each channel's bias to all of its elements.
  Move bias_moves() const {
    const core::Shape& out = pass_.out();
    const std::int64_t plane = out[1] * out[2];
    MoveMaker maker;
    maker.add(pass_.batch, 0, out[0] * plane);
    maker.add(out[0], 1, plane);
    maker.add(plane, 0, 1);
    return maker.made();
  }

  /// Plain float32 stays plain, whatever the search found.
  template <typename Performance, typename Algorithm>
  void take(const Performance& found, const Convolution& of, Algorithm& algorithm) {
    algorithm = found.algo;
    if (device_.dnn_math() != CUDNN_FMA_MATH)
      FUSEWISE_CALL(device_, cudnnSetConvolutionMathType, of.get(), found.mathType);
  }

  const Pass& pass_;
  Device& device_;
  const core::Conv2d& conv_;
  Tensor in_;
  Tensor out_;
  Tensor bias_;
  Dnn<cudnnFilterDescriptor_t> filter_;
  Convolution forward_;
  Convolution data_;
  Convolution weights_;
  cudnnConvolutionFwdAlgo_t forward_algorithm_ = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  cudnnConvolutionBwdDataAlgo_t data_algorithm_ = CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
  cudnnConvolutionBwdFilterAlgo_t weights_algorithm_ = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0;
};

}  // namespace

std::unique_ptr<Operation> conv2d(const Pass& pass) { return std::make_unique<Conv2dOperation>(pass); }

}  // namespace profiler::cuda
