// Traces of made-up training steps that the profiler marked, whose times are worked out by hand.

#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/profiler/traces/kineto/trace_text.hpp"

namespace kineto {

/// The device begins a step with 100 us of nothing. Then each layer takes as long forward as backward, and
/// the update 100 us; the step ends 100 us after it, when the host has waited for all.
struct MarkedStep {
  int layers = 2;
  double layer_us = 100;
  bool updates = true;
  bool names_update = true;  ///< by an annotation
  double sum_us = 0;         ///< sums gradients of all workers after the backward pass
  bool is_marked = true;
  double tail_us = 100;  ///< less than 0: the host goes on before the device is done

  double device_us() const { return 2 * layers * layer_us + (updates ? 100 : 0) + sum_us; }
  double length_us() const { return 100 + device_us() + tail_us; }
};

class MarkedJob {
 public:
  explicit MarkedJob(const std::vector<MarkedStep>& steps) {
    for (const MarkedStep& step : steps) add(step);
  }
  std::string text() const { return text_.as_object(); }

 private:
  void kernel(int thread, const std::string& name, double us, const std::string& arguments = "") {
    text_.kernel(thread, device_ - 5, name, device_, us, arguments);
    device_ += us;
  }

  void add(const MarkedStep& step) {
    const double begin = begin_;
    device_ = begin + 100;
    for (int layer = 0; layer < step.layers; ++layer) {
      text_.range("cpu_op", 1, "aten::linear", device_ - 8, 6,
                  fmt::format("\"Sequence number\": {}, \"Input Dims\": [[16, 8]]", sequence_ + layer));
      kernel(1, "gemm", step.layer_us);
    }
    for (int layer = step.layers; layer-- > 0;) {
      text_.range("cpu_op", 2, "autograd::engine::evaluate_function: AddmmBackward0", device_ - 8, 6,
                  fmt::format("\"Sequence number\": {}", sequence_ + layer));
      text_.range("cpu_op", 2, "torch::autograd::AccumulateGrad", device_ - 1, 1, "\"Input Dims\": [[1000]]");
      kernel(2, "gemm_backward", step.layer_us);
    }
    if (step.sum_us > 0)
      kernel(2, "ncclDevKernel_AllReduce_Sum_f32", step.sum_us,
             fmt::format("\"Collective name\": \"allreduce\", \"In msg nelems\": {}, \"dtype\": \"Float\", "
                         "\"Group size\": 2",
                         1000 * step.layers));
    if (step.updates) {
      if (step.names_update) text_.range("user_annotation", 1, "Optimizer.step#SGD.step", device_ - 9, 8);
      text_.range("cpu_op", 1, "aten::_foreach_add_", device_ - 8, 6);
      kernel(1, "multi_tensor_apply", 100);
    }
    if (step.tail_us > 0) text_.range("cuda_runtime", 1, "cudaDeviceSynchronize", device_ - 3, 3);
    if (step.is_marked)
      text_.range("user_annotation", 1, fmt::format("ProfilerStep#{}", number_), begin, step.length_us());
    ++number_;
    sequence_ += step.layers;
    begin_ += step.length_us();
  }

  TraceText text_;
  double begin_ = 0;
  double device_ = 0;
  int number_ = 3;
  int sequence_ = 0;
};

}  // namespace kineto
