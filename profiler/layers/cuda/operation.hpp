// The operations of each kind of layer on a GPU. To add one: a file in operations/ with its Operation, and
// its line in the table of operations.cpp.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/layers/cuda/device.hpp"
#include "profiler/layers/work.hpp"

namespace profiler::cuda {

/// All memory is on the device.
struct Pass : PassOf<void, Sink> {
  Device* device = nullptr;

  Type type() const { return device->arithmetic().type; }
  bool is_mostly_own() const { return device->arithmetic().is_mostly_own; }
  Kernels& kernels() const { return device->kernels(); }
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

using MakeOperation = std::unique_ptr<Operation>(const Pass& pass);
using RoomOf = Room(const LayerWork& work, double batch, const Arithmetic& arithmetic);

struct Kind {
  core::LayerKind kind;
  MakeOperation* make;
  RoomOf* room = nullptr;  ///< null: needs none
};

/// Throws InputError for a kind without an operation.
const Kind& kind_of(core::LayerKind kind);
Room room_of(const LayerWork& work, double batch, const Arithmetic& arithmetic);

/// Returns whether weights are float32 in every arithmetic: the scale and shift of a batch norm.
bool has_float32_weights(core::LayerKind kind);

// operations/*.cpp
MakeOperation conv2d, pool2d, adaptive_avg_pool, batch_norm, lrn, activation, mapping, dropout, addition,
    multiplication, concat, transpose, select, linear, row_norm, embedding, position_embedding,
    positional_encoding, rotary, attention, lstm, lookahead, cross_entropy;
RoomOf pool_room, batch_norm_room, lrn_room, multiplication_room, linear_room, row_norm_room,
    positional_encoding_room, rotary_room, attention_room, lstm_room, cross_entropy_room;

}  // namespace profiler::cuda
