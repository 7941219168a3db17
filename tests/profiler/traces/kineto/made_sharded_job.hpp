// Traces of made-up jobs under FSDP over Gloo, whose groups are known: modules within modules, each with
// parameters that are used before and after the modules inside it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace kineto {

class MadeShardedJob {
 public:
  struct Options {
    bool is_annotated = true;  ///< as FSDP2 does; otherwise as FSDP1, without names of modules
    int workers = 2;
    bool gathers_again = true;
    int steps = 2;
    int micro_batches = 1;  ///< that all scatter their gradients
    int rows = 9;           ///< at most; few rows make many sums equal
  };

  MadeShardedJob(std::uint64_t seed, const Options& options) : bits_(seed), options_(options) {
    root_ = module("", 0);
    root_.is_wrapped = true;
    for (int step = 0; step < options.steps; ++step) run(step);
  }

  /// The group of each parameter in the order in which forward uses it.
  const std::vector<int>& group_of() const { return group_of_; }

  /// By group.
  const std::vector<bool>& is_gathered_again() const { return is_gathered_again_; }

  std::string text() const {
    return fmt::format(
               R"({{"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {{"backend": "gloo", "rank": 0, )"
               R"("world_size": {}}}, "traceEvents": [)",
               options_.workers) +
           "\n" + events_ + "\n]}";
  }

 private:
  using Shape = std::vector<std::int64_t>;

  struct Module {
    std::string name;
    std::vector<Shape> before;  ///< parameters used before the modules inside it
    std::vector<Module> inside;
    std::vector<Shape> after;
    bool is_wrapped = false;
    int group = -1;
    std::int64_t elements = 0;  ///< of its group, padded
    bool is_first = false;      ///< nothing that needs a gradient was computed before
  };

  int below(int count) { return static_cast<int>(bits_() % static_cast<unsigned>(count)); }

  std::vector<Shape> shapes(int most) {
    std::vector<Shape> out(static_cast<std::size_t>(below(most + 1)));
    for (Shape& shape : out) {
      shape = {1 + below(options_.rows)};
      if (below(2) == 0) shape.push_back(1 + below(4));
    }
    return out;
  }

  Module module(const std::string& name, int depth) {
    constexpr int kDepth = 3;
    Module out = {.name = name, .before = shapes(3), .is_wrapped = below(3) > 0};
    const int inside = depth == kDepth ? 0 : below(4);
    for (int i = 0; i < inside; ++i)
      out.inside.push_back(module(fmt::format("{}{}{}", name, name.empty() ? "" : ".", i), depth + 1));
    out.after = shapes(3);
    if (depth == 0) out.after.push_back({5, 2});  // so that there is a gradient
    return out;
  }

  std::string padded(const Shape& shape, Module& owner) {
    const std::int64_t workers = options_.workers;
    std::int64_t row = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) row *= shape[i];
    owner.elements += (shape[0] + workers - 1) / workers * workers * row;
    return fmt::format("[{}]", fmt::join(shape, ", "));
  }

  void event(std::string_view category, const std::string& name, int thread, double start, double end,
             const std::string& arguments = "") {
    events_ += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 5, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{{}}}}})",
        events_.empty() ? "" : ",\n", category, name, thread, start, end - start, arguments);
  }

  void operation(const std::string& name, const std::string& arguments) {
    event("cpu_op", name, 1, now_, now_ + 10, arguments);
    now_ += 12;
  }

  void collective(const std::string& call, const std::string& gloo, std::int64_t elements) {
    event("cpu_op", "c10d::" + call, 1, now_, now_ + 2);
    event("user_annotation", "gloo:" + gloo, 8, now_ + 3, now_ + 20,
          fmt::format(R"("Input Dims": [[{}]], "Input type": ["float"])", elements));
    now_ += 22;
  }

  template <typename Body>
  void annotated(const std::string& what, const Module& of, const Body& body) {
    const double start = now_;
    now_ += 1;
    body();
    now_ += 1;
    if (options_.is_annotated)
      event("user_annotation",
            fmt::format("FSDP::{}{}", what, of.name.empty() ? "" : fmt::format(" ({})", of.name)), 1, start,
            now_);
  }

  void gather(const Module& of) {
    annotated("all_gather", of,
              [&] { collective("_allgather_base_", "all_gather", of.elements / options_.workers); });
  }

  void scatter(const Module& of) {
    annotated("post_backward_reduce", of,
              [&] { collective("_reduce_scatter_base_", "all_reduce", of.elements); });
  }

  /// Gives each parameter its group, before anything runs.
  void count(Module& of, Module& owner) {
    Module& its = of.is_wrapped ? of : owner;
    of.is_first = group_of_.empty();
    if (of.is_wrapped) of.group = groups_++;
    const auto all = [&](const std::vector<Shape>& shapes) {
      for (const Shape& shape : shapes) {
        texts_.push_back(padded(shape, its));
        group_of_.push_back(its.group);
      }
    };
    all(of.before);
    for (Module& inside : of.inside) count(inside, its);
    all(of.after);
  }

  void used(const std::vector<Shape>& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      operation("aten::linear", fmt::format(R"("Sequence number": {}, "Input Dims": [[4, 3]])",
                                            first_sequence_ + next_parameter_++));
  }

  void forward(Module& of) {
    if (of.elements > 0) annotated("pre_forward", of, [&] { gather(of); });
    used(of.before);
    for (Module& inside : of.inside) forward(inside);
    used(of.after);
  }

  void ready(const std::vector<Shape>& shapes) {
    for (std::size_t i = shapes.size(); i-- > 0;) {
      --next_parameter_;
      operation("autograd::engine::evaluate_function: AddmmBackward0",
                fmt::format(R"("Sequence number": {})", first_sequence_ + next_parameter_));
      event("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 1, now_,
            now_ + 4);
      event("cpu_op", "torch::autograd::AccumulateGrad", 1, now_ + 1, now_ + 3,
            fmt::format(R"("Input Dims": [{}])", texts_[static_cast<std::size_t>(next_parameter_)]));
      now_ += 5;
    }
  }

  /// What has no gradient before it ends with the whole pass, from the outermost module on.
  void backward(Module& of, std::vector<const Module*>& at_end) {
    if (of.elements > 0 && of.is_first) at_end.push_back(&of);
    const bool is_again = options_.gathers_again && !of.name.empty();
    if (of.elements > 0)
      annotated("pre_backward", of, [&] {
        if (is_again) gather(of);
      });
    ready(of.after);
    for (std::size_t i = of.inside.size(); i-- > 0;) backward(of.inside[i], at_end);
    ready(of.before);
    if (of.elements > 0 && !of.is_first) scatter(of);
  }

  void note_gathers(const Module& of) {
    if (of.group >= 0)
      is_gathered_again_[static_cast<std::size_t>(of.group)] = options_.gathers_again && !of.name.empty();
    for (const Module& inside : of.inside) note_gathers(inside);
  }

  void run(int step) {
    if (step == 0) {
      count(root_, root_);
      is_gathered_again_.resize(static_cast<std::size_t>(groups_));
      note_gathers(root_);
    }
    const double start = now_;
    now_ += 1;
    if (!options_.is_annotated)
      event("user_annotation", "FullyShardedDataParallel.forward", 1, now_, now_ + 0.5);
    now_ += 1;
    for (int batch = 0; batch < options_.micro_batches; ++batch) {
      forward(root_);
      operation("aten::ones_like", "");
      std::vector<const Module*> at_end;
      backward(root_, at_end);
      for (const Module* each : at_end) scatter(*each);
      first_sequence_ += static_cast<int>(group_of_.size());
    }
    const double update = now_;
    now_ += 1;
    operation("aten::add_", "");
    event("user_annotation", "Optimizer.step#SGD.step", 1, update, now_);
    event("user_annotation", fmt::format("ProfilerStep#{}", step), 1, start, now_ + 1);
    now_ += 10;
  }

  std::mt19937_64 bits_;
  Options options_;
  Module root_;
  int groups_ = 0;
  std::vector<int> group_of_;
  std::vector<bool> is_gathered_again_;
  std::vector<std::string> texts_;  ///< the shape of each parameter
  int next_parameter_ = 0;
  int first_sequence_ = 0;
  double now_ = 1000;
  std::string events_;
};

}  // namespace kineto
