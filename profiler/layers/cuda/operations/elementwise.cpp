// Element-wise functions, by cuDNN where it has them, otherwise by own kernels.

#include "profiler/layers/cuda/operations/descriptors.hpp"
#include "profiler/layers/cuda/operations/drops.hpp"

namespace profiler::cuda {
namespace {

class Activation : public Operation {
 public:
  explicit Activation(const Pass& pass)
      : pass_(pass),
        device_(*pass.device),
        tensor_(tensor_of(device_, pass.batch, core::element_count(pass.out()), 1, 1)),
        function_(device_.make(device_.libraries().cudnnCreateActivationDescriptor,
                               device_.libraries().cudnnDestroyActivationDescriptor,
                               "cudnnCreateActivationDescriptor")) {
    const bool is_relu = pass.layer().kind == core::LayerKind::relu;
    FUSEWISE_CALL(device_, cudnnSetActivationDescriptor, function_.get(),
                  is_relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0.0);
  }
  void forward() override {
    FUSEWISE_CALL(device_, cudnnActivationForward, device_.dnn(), function_.get(), &kOne, tensor_.get(),
                  pass_.inputs[0], &kZero, tensor_.get(), pass_.output);
  }
  void backward() override {
    const Sink& to = pass_.input_gradients[0];
    if (to.data == nullptr) return;
    FUSEWISE_CALL(device_, cudnnActivationBackward, device_.dnn(), function_.get(), &kOne, tensor_.get(),
                  pass_.output, tensor_.get(), pass_.output_gradient, tensor_.get(), pass_.inputs[0],
                  blend(to), tensor_.get(), to.data);
  }

 private:
  const Pass& pass_;
  Device& device_;
  Tensor tensor_;
  Dnn<cudnnActivationDescriptor_t> function_;
};

Map map_of(const core::Layer& layer) {
  if (layer.kind == core::LayerKind::relu) return {Function::relu};
  if (layer.kind == core::LayerKind::tanh) return {Function::tanh};
  if (layer.kind == core::LayerKind::silu) return {Function::silu};
  if (const auto* clamp = std::get_if<core::Hardtanh>(&layer.parameters))
    return {Function::hardtanh, static_cast<float>(clamp->min), static_cast<float>(clamp->max)};
  return {std::get<core::Gelu>(layer.parameters).tanh ? Function::gelu_tanh : Function::gelu};
}

class MapOperation : public Operation {
 public:
  explicit MapOperation(const Pass& pass) : pass_(pass), map_(map_of(pass.layer())) {}
  void forward() override {
    pass_.kernels().map(pass_.type(), map_, pass_.inputs[0], pass_.output, pass_.out_count());
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().map_back(pass_.type(), map_, pass_.inputs[0], pass_.output_gradient, to,
                               pass_.out_count());
  }

 private:
  const Pass& pass_;
  Map map_;
};

class DropoutOperation : public Operation {
 public:
  explicit DropoutOperation(const Pass& pass)
      : pass_(pass), drop_(drop_of(pass.seed, pass.as<core::Dropout>().probability)) {}
  void forward() override {
    pass_.kernels().drop(pass_.type(), drop_, pass_.inputs[0], {pass_.output, false}, pass_.out_count());
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().drop(pass_.type(), drop_, pass_.output_gradient, to, pass_.out_count());
  }

 private:
  const Pass& pass_;
  Drop drop_;
};

class Addition : public Operation {
 public:
  explicit Addition(const Pass& pass) : pass_(pass) {}
  void forward() override {
    const std::int64_t count = pass_.out_count();
    pass_.kernels().add(pass_.type(), pass_.inputs[0], pass_.inputs[1], pass_.output, count);
    for (std::size_t i = 2; i < pass_.inputs.size(); ++i)
      pass_.kernels().accumulate(pass_.type(), pass_.inputs[i], {pass_.output, true}, count);
  }
  void backward() override {
    for (const Sink& to : pass_.input_gradients)
      if (to.data != nullptr)
        pass_.kernels().accumulate(pass_.type(), pass_.output_gradient, to, pass_.out_count());
  }

 private:
  const Pass& pass_;
};

class Multiplication : public Operation {
 public:
  explicit Multiplication(const Pass& pass) : pass_(pass) {}
  void forward() override {
    multiply(pass_.inputs[0], pass_.inputs[1], {pass_.output, false});
    for (std::size_t i = 2; i < pass_.inputs.size(); ++i)
      multiply(pass_.output, pass_.inputs[i], {pass_.output, false});
  }
  /// The gradient times all other inputs, one after another.
  void backward() override {
    for (std::size_t to = 0; to < pass_.inputs.size(); ++to) {
      if (pass_.input_gradients[to].data == nullptr) continue;
      const void* product = pass_.output_gradient;
      std::size_t left = pass_.inputs.size() - 1;
      for (std::size_t i = 0; i < pass_.inputs.size(); ++i) {
        if (i == to) continue;
        multiply(product, pass_.inputs[i],
                 --left == 0 ? pass_.input_gradients[to] : Sink{pass_.scratch, false});
        product = pass_.scratch;
      }
    }
  }

 private:
  void multiply(const void* a, const void* b, Sink to) const {
    pass_.kernels().multiply(pass_.type(), a, b, to, pass_.out_count());
  }

  const Pass& pass_;
};

}  // namespace

std::unique_ptr<Operation> activation(const Pass& pass) {
  if (pass.is_mostly_own()) return mapping(pass);
  return std::make_unique<Activation>(pass);
}
std::unique_ptr<Operation> mapping(const Pass& pass) { return std::make_unique<MapOperation>(pass); }
std::unique_ptr<Operation> dropout(const Pass& pass) { return std::make_unique<DropoutOperation>(pass); }
std::unique_ptr<Operation> addition(const Pass& pass) { return std::make_unique<Addition>(pass); }
std::unique_ptr<Operation> multiplication(const Pass& pass) { return std::make_unique<Multiplication>(pass); }

Room multiplication_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  if (work.inputs.size() < 3) return {};
  return {.scratch = batch * static_cast<double>(core::element_count(work.layer->output)) *
                     static_cast<double>(arithmetic.bytes())};
}

}  // namespace profiler::cuda
