// Synthetic traces of the PyTorch profiler, with features that our real ones lack: steps and NCCL.

#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace kineto {

/// Writes events; host threads are 1 (forward) and 2 (backward), times are us.
class TraceText {
 public:
  void range(const std::string& category, int thread, const std::string& name, double start, double duration,
             const std::string& arguments = "") {
    event(category, fmt::format("{}", thread), name, start, duration, arguments);
  }
  /// A launch on a thread, and its kernel.
  void kernel(int thread, double launch, const std::string& name, double start, double duration,
              const std::string& arguments = "") {
    ++correlation_;
    event("cuda_runtime", fmt::format("{}", thread), "cudaLaunchKernel", launch, 1,
          fmt::format("\"correlation\": {}", correlation_));
    event("kernel", "7", name, start, duration,
          fmt::format("\"correlation\": {}, \"stream\": 7{}{}", correlation_, arguments.empty() ? "" : ", ",
                      arguments));
  }

  std::string as_array() const { return "[\n" + events_ + "\n]\n"; }
  std::string as_object() const {
    return "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA "
           "H100\"}],\n\"traceEvents\": " +
           as_array() + ", \"traceName\": \"t.json\"}\n";
  }

 private:
  void event(const std::string& category, const std::string& thread, const std::string& name, double start,
             double duration, const std::string& arguments) {
    events_ += fmt::format(
        "{}{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 5, \"tid\": {}, \"ts\": {:.3f}, "
        "\"dur\": "
        "{:.3f}, \"args\": {{{}}}}}",
        events_.empty() ? "" : ",\n", category, name, thread, kStart + start, duration, arguments);
  }

  static constexpr double kStart = 1.7e12;
  std::string events_;
  int correlation_ = 0;
};

/// Steps of a model of two linear layers; durations are random, from a seed.
struct TwoLayers {
  std::vector<double> forward[2];
  std::vector<double> backward[2];
  std::vector<double> nccl;
  TraceText text;

  /// The forward pass of layer 1 begins 1600 us after that of layer 0; the wait before a step belongs to no
  /// layer.
  std::vector<double> forward_with_wait(std::size_t layer) const {
    std::vector<double> out = forward[layer];
    for (std::size_t step = 0; layer == 1 && step < out.size(); ++step) out[step] += 1600 - forward[0][step];
    return out;
  }
  /// The backward pass of layer 1 begins 2400 us after its forward pass, that of layer 0 2000 us later.
  std::vector<double> backward_with_wait(std::size_t layer) const {
    std::vector<double> out = backward[layer];
    for (std::size_t step = 0; step < out.size(); ++step)
      out[step] += layer == 1 ? 2400 - forward[1][step] : 2000 - backward[1][step];
    return out;
  }
};

/// With a closure, the optimizer's step runs forward and backward.
inline TwoLayers two_layers(std::uint64_t seed, int steps, bool with_nccl = true, bool has_closure = false) {
  std::mt19937_64 bits(seed);
  const auto draw = [&](double min) {
    return min + static_cast<double>(bits() % 1000);  // whole microseconds
  };
  TwoLayers out;
  for (int step = 0; step < steps; ++step) {
    const double at = 20000.0 * step;
    TraceText& text = out.text;
    text.range("user_annotation", 1, fmt::format("ProfilerStep#{}", step), at, 19000);
    for (int layer = 0; layer < 2; ++layer) {
      const double start = at + 100 + 100 * layer;
      out.forward[layer].push_back(draw(500));
      text.range("python_function", 1, fmt::format("nn.Module: Linear_{}", layer), start, 90);
      text.range(
          "cpu_op", 1, "aten::linear", start + 10, 70,
          fmt::format("\"Sequence number\": {}, \"Input Dims\": [[16, 8], [4, 8], [4]]", 10 * step + layer));
      text.kernel(1, start + 20, "gemm", at + 1000 + 1600 * layer, out.forward[layer].back());
    }
    for (int layer = 1; layer >= 0; --layer) {
      const double start = at + 400 + 100 * (1 - layer);
      out.backward[layer].push_back(draw(800));
      text.range("cpu_op", 2, "autograd::engine::evaluate_function: AddmmBackward0", start, 40,
                 fmt::format("\"Sequence number\": {}, \"Fwd thread id\": 1", 10 * step + layer));
      text.kernel(2, start + 5, "gemm_backward", at + 5000 + 2000 * (1 - layer), out.backward[layer].back());
      for (int gradient = 0; gradient < 2; ++gradient) {
        const double then = start + 50 + 20 * gradient;
        text.range("cpu_op", 2, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", then,
                   15);
        text.range("cpu_op", 2, "torch::autograd::AccumulateGrad", then + 1, 12,
                   fmt::format("\"Input Dims\": [{}]", gradient == 0 ? "[4]" : "[4, 8]"));
      }
    }
    if (with_nccl) {
      // Layer 1's gradients leave at 7000 while layer 0 is in its backward pass until after 7800 at least.
      out.nccl.push_back(draw(2000));
      text.kernel(
          2, at + 480, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", at + 7000,
          out.nccl.back(),
          "\"Collective name\": \"allreduce\", \"In msg nelems\": 250000, \"Out msg nelems\": 250000, "
          "\"dtype\": \"Float\", \"Group size\": 4");
    }
    text.range("user_annotation", 1, "Optimizer.step#SGD.step", at + (has_closure ? 50 : 700),
               has_closure ? 750 : 100);
    text.range("cpu_op", 1, "aten::_foreach_add_", at + 710, 50);
    text.kernel(1, at + 720, "multi_tensor_apply", at + 15000, 100);
  }
  return out;
}

}  // namespace kineto
