#include "profiler/traces/kineto/gradient_sizes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"
#include "profiler/traces/kineto/shapes.hpp"

namespace kineto {
namespace {

using Gradients = std::vector<Gradient*>;

/// The gradients of each step in the order in which they became ready.
std::vector<Gradients> by_step(Calls& calls) {
  std::vector<Gradients> out(calls.steps.size());
  for (Call& call : calls.calls)
    for (std::size_t i = 0; call.step >= 0 && i < call.gradients.size(); ++i)
      out[static_cast<std::size_t>(call.step)].push_back(&call.gradients[i]);
  for (Gradients& gradients : out)
    std::stable_sort(gradients.begin(), gradients.end(),
                     [](const Gradient* a, const Gradient* b) { return a->at_ns < b->at_ns; });
  return out;
}

bool add_shapes(const Trace& trace, const std::vector<Gradients>& steps) {
  bool complete = true;
  for (const Gradients& gradients : steps)
    for (Gradient* gradient : gradients) {
      const std::string& text = trace.texts[gradient->shapes];
      const auto shapes = shapes_of(text);
      complete = complete && !shapes.empty();
      if (shapes.empty()) continue;
      gradient->elements = elements_in(shapes.front());
      if (gradient->elements == 0)
        throw core::InputError(
            fmt::format("{}: /: expected gradients of 1 to {} elements, got one of shape {}",
                        core::one_line(trace.path), core::kMaxElements, core::printable(text)));
    }
  return complete;
}

/// Backward reaches the parameters from the last to the first. Steps that the trace holds in part have fewer.
void add_parameters(const Trace& trace, const std::vector<Gradients>& steps,
                    const std::vector<std::int64_t>& parameters) {
  std::size_t most = 0;
  for (const Gradients& gradients : steps) {
    most = std::max(most, gradients.size());
    if (gradients.size() != parameters.size()) continue;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i]->elements = parameters[parameters.size() - 1 - i];
  }
  if (most != parameters.size())
    throw core::InputError(
        fmt::format("{}: /: expected as many gradients in a step as the model has parameters, {}, got {}",
                    core::one_line(trace.path), parameters.size(), most));
}

/// Divides a bucket evenly among the gradients that became ready since the bucket before it. Returns false
/// and leaves the sizes at 0 if that does not give each gradient of the step one.
bool add_buckets(const Gradients& gradients, const std::vector<Bucket>& buckets) {
  auto first = gradients.begin();
  for (const Bucket& bucket : buckets) {
    const auto last = std::find_if(first, gradients.end(), [&](const Gradient* gradient) {
      return gradient->at_ns > bucket.launched_ns;
    });
    const auto count = static_cast<std::int64_t>(last - first);
    if (count == 0) continue;  // an all-reduce of something else
    if (bucket.elements < count) break;
    for (std::int64_t i = 0; first != last; ++first, ++i)
      (*first)->elements = bucket.elements * (i + 1) / count - bucket.elements * i / count;
  }
  if (first == gradients.end()) return !gradients.empty();
  for (Gradient* gradient : gradients) gradient->elements = 0;
  return false;
}

/// Returns whether any step has sizes; the trace holds some in part.
bool add_buckets(const std::vector<Gradients>& steps, const std::vector<std::vector<Bucket>>& all) {
  bool any = false;
  for (std::size_t step = 0; step < steps.size(); ++step) any = add_buckets(steps[step], all[step]) || any;
  return any;
}

}  // namespace

std::vector<std::vector<Bucket>> buckets_of(const Trace& trace, const Calls& calls) {
  std::vector<std::vector<Bucket>> out(calls.steps.size());
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const std::int32_t collective = trace.kernels[i].collective;
    const Work& work = calls.work[i];
    const bool is_of_before = !work.has_launch && !trace.launches.empty();  // launched before the trace began
    if (collective < 0 || work.step < 0 || is_of_before) continue;
    const Collective& sent = trace.collectives[static_cast<std::size_t>(collective)];
    if (sent.in_elements <= core::kMaxElements &&
        collective_kind(trace.texts[sent.name]) == core::CollectiveKind::all_reduce)
      out[static_cast<std::size_t>(work.step)].push_back(
          {.launched_ns = work.launched_ns, .elements = sent.in_elements});
  }
  for (std::vector<Bucket>& buckets : out)
    std::stable_sort(buckets.begin(), buckets.end(),
                     [](const Bucket& a, const Bucket& b) { return a.launched_ns < b.launched_ns; });
  return out;
}

std::string find_gradient_sizes(const Trace& trace, Calls& calls,
                                const std::vector<std::int64_t>& parameters) {
  const std::vector<Gradients> steps = by_step(calls);
  if (add_shapes(trace, steps)) return "";
  if (!parameters.empty()) {
    add_parameters(trace, steps, parameters);
    return "ASSUMED, as the trace holds no shapes: gradients become ready in the opposite order of the "
           "model's "
           "parameters";
  }
  if (add_buckets(steps, buckets_of(trace, calls)))
    return "ASSUMED, as the trace holds no shapes: the gradients of a bucket that was all-reduced have equal "
           "sizes";
  throw core::InputError(fmt::format(
      "{}: /: expected shapes of gradients (a trace made with record_shapes=True), a model with its "
      "parameters (--model FILE), or all-reduces of known sizes after all gradients, got none of them",
      core::one_line(trace.path)));
}

}  // namespace kineto
