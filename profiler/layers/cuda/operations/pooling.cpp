// Pooling, by cuDNN if its windows are the same; windows beyond the padded input (ceil_mode) and adaptive
// windows of different sizes, by own kernels.

#include <optional>

#include "profiler/layers/cuda/operations/descriptors.hpp"

namespace profiler::cuda {
namespace {

/// Returns whether windows are cut only by the edges of the input and the padding.
bool is_regular(const Side& side) {
  return side.kernel > 0 && side.padding < side.kernel &&
         (side.in + 2 * side.padding - side.kernel) / side.stride + 1 == side.out;
}

/// Converts an adaptive side with windows of equal size to one with an explicit size.
Side made_plain(Side side) {
  if (side.kernel > 0 || side.in % side.out != 0) return side;
  side.kernel = side.in / side.out;
  side.stride = side.kernel;
  return side;
}

Windows windows_of(const LayerWork& work, double batch) {
  const core::Shape& in = work.inputs[0].shape;
  const core::Shape& out = work.layer->output;
  Windows w;
  w.planes = static_cast<std::int64_t>(batch) * in[0];
  w.is_max = work.layer->kind == core::LayerKind::max_pool;
  w.rows.in = in[1];
  w.rows.out = out[1];
  w.columns.in = in[2];
  w.columns.out = out[2];
  if (const auto* pool = std::get_if<core::Pool2d>(&work.layer->parameters)) {
    w.count_padding = pool->count_padding;
    w.rows.kernel = pool->kernel.height;
    w.rows.stride = pool->stride.height;
    w.rows.padding = pool->padding.height;
    w.columns.kernel = pool->kernel.width;
    w.columns.stride = pool->stride.width;
    w.columns.padding = pool->padding.width;
  }
  w.rows = made_plain(w.rows);
  w.columns = made_plain(w.columns);
  return w;
}

bool is_for_cudnn(const Windows& w, const Arithmetic& arithmetic) {
  return !arithmetic.is_mostly_own && is_regular(w.rows) && is_regular(w.columns);
}

class CudnnPool : public Operation {
 public:
  explicit CudnnPool(const Pass& pass)
      : pass_(pass),
        device_(*pass.device),
        in_(images(pass, pass.in())),
        out_(images(pass, pass.out())),
        pool_(device_.make(device_.libraries().cudnnCreatePoolingDescriptor,
                           device_.libraries().cudnnDestroyPoolingDescriptor,
                           "cudnnCreatePoolingDescriptor")) {
    const Windows w = windows_of(*pass.work, static_cast<double>(pass.batch));
    const auto mean = w.count_padding ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                      : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    FUSEWISE_CALL(device_, cudnnSetPooling2dDescriptor, pool_.get(), w.is_max ? CUDNN_POOLING_MAX : mean,
                  CUDNN_NOT_PROPAGATE_NAN, narrow(device_, w.rows.kernel), narrow(device_, w.columns.kernel),
                  narrow(device_, w.rows.padding), narrow(device_, w.columns.padding),
                  narrow(device_, w.rows.stride), narrow(device_, w.columns.stride));
  }
  void forward() override {
    FUSEWISE_CALL(device_, cudnnPoolingForward, device_.dnn(), pool_.get(), &kOne, in_.get(), pass_.inputs[0],
                  &kZero, out_.get(), pass_.output);
  }
  void backward() override {
    const Sink& to = pass_.input_gradients[0];
    if (to.data == nullptr) return;
    FUSEWISE_CALL(device_, cudnnPoolingBackward, device_.dnn(), pool_.get(), &kOne, out_.get(), pass_.output,
                  out_.get(), pass_.output_gradient, in_.get(), pass_.inputs[0], blend(to), in_.get(),
                  to.data);
  }

 private:
  const Pass& pass_;
  Device& device_;
  Tensor in_;
  Tensor out_;
  Dnn<cudnnPoolingDescriptor_t> pool_;
};

class OwnPool : public Operation {
 public:
  explicit OwnPool(const Pass& pass)
      : pass_(pass), windows_(windows_of(*pass.work, static_cast<double>(pass.batch))) {}

  void forward() override {
    pass_.kernels().pool(pass_.type(), windows_, pass_.inputs[0], pass_.output, places());
  }
  void backward() override {
    const Sink& to = pass_.input_gradients[0];
    if (to.data == nullptr) return;
    if (!to.add)
      pass_.device->runtime().zero(
          to.data, static_cast<std::size_t>(pass_.in_count()) * pass_.device->arithmetic().bytes());
    pass_.kernels().pool_back(pass_.type(), windows_, pass_.output_gradient, places(), to.data);
  }

 private:
  std::int32_t* places() const { return static_cast<std::int32_t*>(pass_.kept); }

  const Pass& pass_;
  Windows windows_;
};

}  // namespace

std::unique_ptr<Operation> pool2d(const Pass& pass) {
  if (is_for_cudnn(windows_of(*pass.work, 1), pass.device->arithmetic()))
    return std::make_unique<CudnnPool>(pass);
  return std::make_unique<OwnPool>(pass);
}

std::unique_ptr<Operation> adaptive_avg_pool(const Pass& pass) { return pool2d(pass); }

/// The index of each window's maximum in its plane.
Room pool_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  if (is_for_cudnn(windows_of(work, 1), arithmetic)) return {};
  return {.kept = batch * static_cast<double>(core::element_count(work.layer->output)) *
                  static_cast<double>(sizeof(std::int32_t))};
}

}  // namespace profiler::cuda
