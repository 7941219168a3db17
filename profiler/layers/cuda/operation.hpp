// The operations of each kind of layer on a GPU. To add one: a file in operations/ with its Operation, and
// its line in the table of operations.cpp.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/layers/cuda/device.hpp"
#include "profiler/layers/work.hpp"

namespace profiler::cuda {

/// One layer on a batch: its inputs and outputs, all on the device. Samples are contiguous, one after
/// another.
struct Pass {
  Device* device = nullptr;
  const LayerWork* work = nullptr;
  std::int64_t batch = 1;
  std::uint64_t seed = 0;                ///< for dropout
  std::vector<const void*> inputs;       ///< null for tokens
  const std::int32_t* tokens = nullptr;  ///< of the first input, or a loss's labels
  std::vector<const void*> weights;
  void* output = nullptr;
  void* kept = nullptr;     ///< data that forward stores for backward, besides inputs and output
  void* scratch = nullptr;  ///< temporary memory for one call
  const void* output_gradient = nullptr;
  std::vector<Sink> input_gradients;
  std::vector<Sink> weight_gradients;

  const core::Layer& layer() const { return *work->layer; }
  const core::Shape& in(std::size_t i = 0) const { return work->inputs[i].shape; }
  const core::Shape& out() const { return work->layer->output; }
  std::int64_t in_count(std::size_t i = 0) const { return batch * core::element_count(in(i)); }
  std::int64_t out_count() const { return batch * core::element_count(out()); }
  Type type() const { return device->arithmetic().type; }
  bool is_mostly_own() const { return device->arithmetic().is_mostly_own; }
  Kernels& kernels() const { return device->kernels(); }
  template <typename Parameters>
  const Parameters& as() const {
    return std::get<Parameters>(layer().parameters);
  }
};

/// Refers to its pass, which must outlive it. Each call enqueues work on the device's stream and returns.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Called once, when all memory is allocated: searches for algorithms, makes tables.
  virtual void prepare() {}
  virtual void forward() = 0;
  virtual void backward() = 0;
  /// Copies between weights, or their gradients, and the operation's own format. Not part of an iteration.
  virtual void take_weights() {}
  virtual void give_weight_gradients() {}
};

/// Sizes in bytes; double, because products of numbers in a file may exceed every integer type.
struct Room {
  double kept = 0;
  double scratch = 0;
  double own = 0;  ///< approximate size of what the operation allocates itself
};

struct Kind {
  core::LayerKind kind;
  std::unique_ptr<Operation> (*make)(const Pass&);
  Room (*room)(const LayerWork&, double batch, const Arithmetic&) = nullptr;  ///< null: needs none
};

/// Throws InputError for a kind without an operation.
const Kind& kind_of(core::LayerKind kind);
Room room_of(const LayerWork& work, double batch, const Arithmetic& arithmetic);

/// Returns whether weights are float32 in every arithmetic: the scale and shift of a batch norm.
bool has_float32_weights(core::LayerKind kind);

// operations/*.cpp
std::unique_ptr<Operation> conv2d(const Pass& pass);
std::unique_ptr<Operation> pool2d(const Pass& pass);
std::unique_ptr<Operation> adaptive_avg_pool(const Pass& pass);
Room pool_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> batch_norm(const Pass& pass);
Room batch_norm_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> lrn(const Pass& pass);
Room lrn_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> activation(const Pass& pass);
std::unique_ptr<Operation> mapping(const Pass& pass);
std::unique_ptr<Operation> dropout(const Pass& pass);
std::unique_ptr<Operation> addition(const Pass& pass);
std::unique_ptr<Operation> multiplication(const Pass& pass);
Room multiplication_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> concat(const Pass& pass);
std::unique_ptr<Operation> transpose(const Pass& pass);
std::unique_ptr<Operation> select(const Pass& pass);
std::unique_ptr<Operation> linear(const Pass& pass);
Room linear_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> row_norm(const Pass& pass);
Room row_norm_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> embedding(const Pass& pass);
std::unique_ptr<Operation> position_embedding(const Pass& pass);
std::unique_ptr<Operation> positional_encoding(const Pass& pass);
Room positional_encoding_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> rotary(const Pass& pass);
Room rotary_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> attention(const Pass& pass);
Room attention_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> lstm(const Pass& pass);
Room lstm_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);
std::unique_ptr<Operation> lookahead(const Pass& pass);
std::unique_ptr<Operation> cross_entropy(const Pass& pass);
Room cross_entropy_room(const LayerWork& work, double batch, const Arithmetic& arithmetic);

}  // namespace profiler::cuda
