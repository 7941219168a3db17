// lstm, by cuDNN, which keeps all weights in a buffer of its own.

#include "profiler/layers/cuda/operations/descriptors.hpp"

namespace profiler::cuda {
namespace {

constexpr std::int64_t kGates = 4;     // input, forget, cell, output: also cuDNN's order
constexpr std::size_t kTensors = 4;    // weight_ih, weight_hh, bias_ih, bias_hh
constexpr std::size_t kMinBytes = 16;  // so that the address is not null

std::int64_t directions_of(const core::Lstm& lstm) { return lstm.bidirectional ? 2 : 1; }

using Sequences = Dnn<cudnnRNNDataDescriptor_t>;

class LstmOperation : public Operation {
 public:
  explicit LstmOperation(const Pass& pass)
      : pass_(pass),
        device_(*pass.device),
        lstm_(pass.as<core::Lstm>()),
        directions_(directions_of(lstm_)),
        in_features_(pass.in()[1]),
        dropout_(device_.make(device_.libraries().cudnnCreateDropoutDescriptor,
                              device_.libraries().cudnnDestroyDropoutDescriptor,
                              "cudnnCreateDropoutDescriptor")),
        rnn_(device_.make(device_.libraries().cudnnCreateRNNDescriptor,
                          device_.libraries().cudnnDestroyRNNDescriptor, "cudnnCreateRNNDescriptor")),
        state_(device_.make(device_.libraries().cudnnCreateTensorDescriptor,
                            device_.libraries().cudnnDestroyTensorDescriptor,
                            "cudnnCreateTensorDescriptor")) {
    FUSEWISE_CALL(device_, cudnnSetDropoutDescriptor, dropout_.get(), device_.dnn(), 0.0F, nullptr,
                  std::size_t{0}, 0ULL);
    FUSEWISE_CALL(device_, cudnnSetRNNDescriptor_v8, rnn_.get(), CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM,
                  CUDNN_RNN_DOUBLE_BIAS, lstm_.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
                  CUDNN_LINEAR_INPUT, device_.dnn_type(), CUDNN_DATA_FLOAT, device_.dnn_math(),
                  narrow(device_, in_features_), narrow(device_, lstm_.hidden), narrow(device_, lstm_.hidden),
                  narrow(device_, lstm_.layers), dropout_.get(), CUDNN_RNN_PADDED_IO_ENABLED);
    in_ = sequences(in_features_);
    out_ = sequences(directions_ * lstm_.hidden);
    const int sizes[] = {narrow(device_, lstm_.layers * directions_), narrow(device_, pass.batch),
                         narrow(device_, lstm_.hidden)};
    const int strides[] = {sizes[1] * sizes[2], sizes[2], 1};
    FUSEWISE_CALL(device_, cudnnSetTensorNdDescriptor, state_.get(), device_.dnn_type(), 3, &sizes[0],
                  &strides[0]);
    allocate();
  }

  void prepare() override {
    const std::vector<std::int32_t> lengths(static_cast<std::size_t>(pass_.batch),
                                            static_cast<std::int32_t>(pass_.in()[0]));
    device_.runtime().upload(lengths_.data(), lengths.data(), lengths.size() * sizeof(std::int32_t));
    take_weights();
  }
  void take_weights() override {
    each_piece(weights_, [&](std::size_t tensor, std::int64_t first, std::size_t bytes, void* place) {
      const auto* from = static_cast<const char*>(pass_.weights[tensor]) + offset(first);
      device_.runtime().copy(place, from, bytes);
    });
  }
  /// Overwrites the tensors: no other layer shares an LSTM's weights.
  void give_weight_gradients() override {
    each_piece(gradients_, [&](std::size_t tensor, std::int64_t first, std::size_t bytes, void* place) {
      auto* const to = static_cast<char*>(pass_.weight_gradients[tensor].data) + offset(first);
      device_.runtime().copy(to, place, bytes);
    });
  }

  void forward() override {
    FUSEWISE_CALL(device_, cudnnRNNForward, device_.dnn(), rnn_.get(), CUDNN_FWD_MODE_TRAINING, lengths(),
                  in_.get(), pass_.inputs[0], out_.get(), pass_.output, state_.get(), nullptr, nullptr,
                  state_.get(), nullptr, nullptr, weights_.bytes(), weights_.data(), work_.bytes(),
                  work_.data(), reserve_.bytes(), reserve_.data());
  }
  void backward() override {
    const Sink& wanted = pass_.input_gradients[0];
    const bool is_direct = wanted.data != nullptr && !wanted.add;
    void* const to = is_direct ? wanted.data : pass_.scratch;
    FUSEWISE_CALL(device_, cudnnRNNBackwardData_v8, device_.dnn(), rnn_.get(), lengths(), out_.get(),
                  pass_.output, pass_.output_gradient, in_.get(), to, state_.get(), nullptr, nullptr, nullptr,
                  state_.get(), nullptr, nullptr, nullptr, weights_.bytes(), weights_.data(), work_.bytes(),
                  work_.data(), reserve_.bytes(), reserve_.data());
    if (wanted.data != nullptr && wanted.add)
      pass_.kernels().accumulate(pass_.type(), to, wanted, pass_.in_count());
    device_.runtime().zero(gradients_.data(), gradients_.bytes());  // cuDNN only adds
    FUSEWISE_CALL(device_, cudnnRNNBackwardWeights_v8, device_.dnn(), rnn_.get(), CUDNN_WGRAD_MODE_ADD,
                  lengths(), in_.get(), pass_.inputs[0], state_.get(), nullptr, out_.get(), pass_.output,
                  gradients_.bytes(), gradients_.data(), work_.bytes(), work_.data(), reserve_.bytes(),
                  reserve_.data());
  }

 private:
  Sequences sequences(std::int64_t features) {
    Sequences out =
        device_.make(device_.libraries().cudnnCreateRNNDataDescriptor,
                     device_.libraries().cudnnDestroyRNNDataDescriptor, "cudnnCreateRNNDataDescriptor");
    const std::vector<int> lengths(static_cast<std::size_t>(pass_.batch), narrow(device_, pass_.in()[0]));
    FUSEWISE_CALL(device_, cudnnSetRNNDataDescriptor, out.get(), device_.dnn_type(),
                  CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, lengths[0], narrow(device_, pass_.batch),
                  narrow(device_, features), lengths.data(), nullptr);
    return out;
  }

  void allocate() {
    std::size_t work = 0;
    std::size_t reserve = 0;
    std::size_t weights = 0;
    FUSEWISE_CALL(device_, cudnnGetRNNTempSpaceSizes, device_.dnn(), rnn_.get(), CUDNN_FWD_MODE_TRAINING,
                  in_.get(), &work, &reserve);
    FUSEWISE_CALL(device_, cudnnGetRNNWeightSpaceSize, device_.dnn(), rnn_.get(), &weights);
    work_ = Memory(device_.runtime(), std::max(work, kMinBytes));
    reserve_ = Memory(device_.runtime(), std::max(reserve, kMinBytes));
    weights_ = Memory(device_.runtime(), weights);
    gradients_ = Memory(device_.runtime(), weights);
    lengths_ = Memory(device_.runtime(), static_cast<std::size_t>(pass_.batch) * sizeof(std::int32_t));
  }

  const std::int32_t* lengths() const { return static_cast<const std::int32_t*>(lengths_.data()); }
  std::size_t offset(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * device_.arithmetic().bytes();
  }

  /// Calls work(tensor, its first element, bytes, cuDNN's address in this buffer) for each gate's rows.
  template <typename Work>
  void each_piece(const Memory& space, const Work& work) {
    const Tensor matrix = tensor_of(device_, 1, 1, 1, 1);
    const Tensor bias = tensor_of(device_, 1, 1, 1, 1);
    for (std::int64_t pseudo = 0; pseudo < lstm_.layers * directions_; ++pseudo) {
      const std::int64_t features = pseudo < directions_ ? in_features_ : directions_ * lstm_.hidden;
      for (std::int64_t gate = 0; gate < 2 * kGates; ++gate) {
        void* matrix_at = nullptr;
        void* bias_at = nullptr;
        FUSEWISE_CALL(device_, cudnnGetRNNWeightParams, device_.dnn(), rnn_.get(),
                      static_cast<std::int32_t>(pseudo), space.bytes(), space.data(),
                      static_cast<std::int32_t>(gate), matrix.get(), &matrix_at, bias.get(), &bias_at);
        const bool is_recurrent = gate >= kGates;
        const std::int64_t columns = is_recurrent ? lstm_.hidden : features;
        const std::size_t tensor = static_cast<std::size_t>(pseudo) * kTensors + (is_recurrent ? 1 : 0);
        const std::int64_t row = gate % kGates * lstm_.hidden;
        work(tensor, row * columns, offset(lstm_.hidden * columns), matrix_at);
        work(tensor + 2, row, offset(lstm_.hidden), bias_at);
      }
    }
  }

  const Pass& pass_;
  Device& device_;
  const core::Lstm& lstm_;
  std::int64_t directions_;
  std::int64_t in_features_;
  Dnn<cudnnDropoutDescriptor_t> dropout_;
  Dnn<cudnnRNNDescriptor_t> rnn_;
  Tensor state_;
  Sequences in_;
  Sequences out_;
  Memory weights_;
  Memory gradients_;
  Memory work_;
  Memory reserve_;
  Memory lengths_;
};

}  // namespace

std::unique_ptr<Operation> lstm(const Pass& pass) { return std::make_unique<LstmOperation>(pass); }

/// cuDNN reports its allocations only on a device: gates, cells and outputs, twice, and the weights' two
/// buffers.
Room lstm_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  const auto& lstm = std::get<core::Lstm>(work.layer->parameters);
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const core::Shape& in = work.inputs[0].shape;
  const double steps = batch * number(in[0]);
  const double per_step = number(lstm.layers * directions_of(lstm)) * number((kGates + 2) * lstm.hidden);
  double weights = 0;
  for (const core::Tensor& tensor : work.layer->tensors) weights += number(tensor.elements);
  const auto bytes = static_cast<double>(arithmetic.bytes());
  const bool is_direct = work.inputs[0].wants_gradient && !work.inputs[0].adds_gradient;
  return {.scratch = is_direct ? 0 : steps * number(in[1]) * bytes,
          .own = (2 * steps * per_step + 2 * weights) * bytes};
}

}  // namespace profiler::cuda
