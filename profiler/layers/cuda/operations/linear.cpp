// linear: y = x w' + b on the last dimension, by cuBLASLt; the gradient of the bias is a product with ones.

#include <optional>

#include "profiler/layers/cuda/operations/descriptors.hpp"
#include "profiler/layers/cuda/product.hpp"

namespace profiler::cuda {
namespace {

class Linear : public Operation {
 public:
  explicit Linear(const Pass& pass) : pass_(pass) {
    Device& device = *pass.device;
    const std::int64_t in = pass.in().back();
    const std::int64_t out = pass.out().back();
    rows_ = pass.in_count() / in;
    const void* const bias = pass.weights.size() > 1 ? pass.weights[1] : nullptr;
    forward_.emplace(
        device, ProductShape{.rows = rows_, .columns = out, .inner = in, .b_transposed = true, .bias = bias});
    if (const Sink& to = pass.input_gradients[0]; to.data != nullptr)
      data_.emplace(device, ProductShape{.rows = rows_, .columns = in, .inner = out, .add = to.add});
    weights_.emplace(device, ProductShape{.rows = out,
                                          .columns = in,
                                          .inner = rows_,
                                          .a_transposed = true,
                                          .add = pass.weight_gradients[0].add});
    if (bias != nullptr)
      bias_.emplace(
          device,
          ProductShape{.rows = 1, .columns = out, .inner = rows_, .add = pass.weight_gradients[1].add});
  }
  void prepare() override {
    if (bias_) pass_.kernels().fill(pass_.type(), pass_.kept, 1, rows_);
  }
  void forward() override { forward_->run(pass_.inputs[0], pass_.weights[0], pass_.output); }
  void backward() override {
    if (data_) data_->run(pass_.output_gradient, pass_.weights[0], pass_.input_gradients[0].data);
    weights_->run(pass_.output_gradient, pass_.inputs[0], pass_.weight_gradients[0].data);
    if (bias_) bias_->run(pass_.kept, pass_.output_gradient, pass_.weight_gradients[1].data);
  }

 private:
  const Pass& pass_;
  std::int64_t rows_ = 0;
  std::optional<Product> forward_;
  std::optional<Product> data_;
  std::optional<Product> weights_;
  std::optional<Product> bias_;
};

}  // namespace

std::unique_ptr<Operation> linear(const Pass& pass) { return std::make_unique<Linear>(pass); }

/// Memory for the ones.
Room linear_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  const core::Shape& in = work.inputs[0].shape;
  const double rows = batch * static_cast<double>(core::element_count(in)) / static_cast<double>(in.back());
  return {.kept = rows * static_cast<double>(arithmetic.bytes())};
}

}  // namespace profiler::cuda
