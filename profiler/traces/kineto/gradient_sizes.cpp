#include "profiler/traces/kineto/gradient_sizes.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"
#include "profiler/traces/kineto/collective_size.hpp"
#include "profiler/traces/kineto/micro_batches.hpp"
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

std::size_t most_gradients(const std::vector<Gradients>& steps) {
  std::size_t most = 0;
  for (const Gradients& gradients : steps) most = std::max(most, gradients.size());
  return most;
}

bool has_shapes(const Trace& trace, const std::vector<Gradients>& steps) {
  const auto has_shape = [&](const Gradient* gradient) {
    const auto shapes = shapes_of(trace.texts[gradient->shapes]);
    return !shapes.empty() && elements_in(shapes.front()) > 0;
  };
  return std::all_of(steps.begin(), steps.end(), [&](const Gradients& gradients) {
    return std::all_of(gradients.begin(), gradients.end(), has_shape);
  });
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
  const std::size_t most = most_gradients(steps);
  for (const Gradients& gradients : steps) {
    if (gradients.size() != parameters.size()) continue;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i]->elements = parameters[parameters.size() - 1 - i];
  }
  if (most != parameters.size())
    throw core::InputError(
        fmt::format("{}: /: expected as many gradients in a step as the model has parameters, {}, got {}",
                    core::one_line(trace.path), parameters.size(), most));
}

/// The parts of so many elements, as equal as can be.
void divide(std::int64_t elements, Gradients::const_iterator first, Gradients::const_iterator last) {
  const std::int64_t count = last - first;
  for (std::int64_t i = 0; first != last; ++first, ++i)
    (*first)->elements = elements * (i + 1) / count - elements * i / count;
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
    divide(bucket.elements, first, last);
    first = last;
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

/// Divides all buckets of a step evenly among its gradients, for steps that the trace holds as a whole.
/// Returns whether there is one.
bool add_sums(const std::vector<Gradients>& steps, const std::vector<std::vector<Bucket>>& all) {
  const std::size_t most = most_gradients(steps);
  bool any = false;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    std::int64_t sum = 0;
    for (const Bucket& bucket : all[step])
      if (sum <= core::kMaxElements) sum += bucket.elements;
    const bool is_whole = steps[step].size() == most && sum >= static_cast<std::int64_t>(most);
    if (most == 0 || !is_whole || sum > core::kMaxElements) continue;
    divide(sum, steps[step].begin(), steps[step].end());
    any = true;
  }
  return any;
}

bool is_gradients(const Trace& trace, const Calls& calls, std::size_t kernel, core::CollectiveKind kind) {
  const Work& work = calls.work[kernel];
  const bool is_of_before = !work.has_launch && !trace.launches.empty();  // launched before the trace began
  return trace.kernels[kernel].collective >= 0 && work.step >= 0 && !work.is_exchange && !is_of_before &&
         kind_of(trace, trace.kernels[kernel]) == kind;
}

bool is_of_earlier_batch(const Calls& calls, const Work& work) {
  const Spans& left_out = calls.steps[static_cast<std::size_t>(work.step)].left_out_ns;
  return std::any_of(left_out.begin(), left_out.end(), [&](const Span& span) {
    return work.launched_ns >= span.first && work.launched_ns < span.second;
  });
}

bool lacks_bucket_sizes(const Trace& trace, const Calls& calls) {
  for (std::size_t i = 0; i < trace.kernels.size(); ++i)
    if (is_gradients(trace, calls, i, core::CollectiveKind::all_reduce) &&
        trace.collectives[static_cast<std::size_t>(trace.kernels[i].collective)].in_elements <= 0)
      return true;
  return false;
}

}  // namespace

std::vector<std::vector<Bucket>> buckets_of(const Trace& trace, const Calls& calls) {
  std::vector<std::vector<Bucket>> out(calls.steps.size());
  auto kind = core::CollectiveKind::all_reduce;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i)
    if (is_gradients(trace, calls, i, core::CollectiveKind::reduce_scatter))
      kind = core::CollectiveKind::reduce_scatter;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    if (!is_gradients(trace, calls, i, kind)) continue;
    const Work& work = calls.work[i];
    const Collective& sent = trace.collectives[static_cast<std::size_t>(trace.kernels[i].collective)];
    if (is_of_earlier_batch(calls, work)) continue;
    if (sent.in_elements > 0 && sent.in_elements <= core::kMaxElements)
      out[static_cast<std::size_t>(work.step)].push_back(
          {.launched_ns = work.launched_ns, .elements = sent.in_elements});
  }
  for (std::vector<Bucket>& buckets : out)
    std::stable_sort(buckets.begin(), buckets.end(),
                     [](const Bucket& a, const Bucket& b) { return a.launched_ns < b.launched_ns; });
  return out;
}

bool sums_earlier_batches(const Trace& trace, const Calls& calls) {
  for (std::size_t i = 0; i < trace.kernels.size(); ++i)
    for (const auto kind : {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter})
      if (is_gradients(trace, calls, i, kind) && is_of_earlier_batch(calls, calls.work[i])) return true;
  return false;
}

core::Dtype gradient_dtype(const Trace& trace, const Calls& calls) {
  std::map<core::Dtype, double> elements;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const Kernel& kernel = trace.kernels[i];
    if (kernel.collective < 0 || calls.work[i].is_exchange ||
        kind_of(trace, kernel) == core::CollectiveKind::all_gather)
      continue;
    const Collective& collective = trace.collectives[static_cast<std::size_t>(kernel.collective)];
    const std::string dtype = plain_name(trace.texts[collective.dtype]);
    const std::string_view name = trace.texts[kernel.name];
    const auto says = [&](std::string_view type, std::string_view of_kernel, std::string_view old) {
      return dtype.empty() ? name.find(of_kernel) != std::string_view::npos || name.ends_with(old)
                           : dtype.ends_with(type);
    };
    const core::Dtype type = says("bfloat16", "_bf16", "bfloat16") ? core::Dtype::bfloat16
                             : says("half", "_f16", "_half") || dtype.ends_with("float16")
                                 ? core::Dtype::float16
                                 : core::Dtype::float32;
    elements[type] += static_cast<double>(std::max<std::int64_t>(0, collective.in_elements));
  }
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() || most->second <= 0 ? core::Dtype::float32 : most->first;
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
  if (add_sums(steps, buckets_of(trace, calls)))
    return "ASSUMED, as the trace holds no shapes, and some gradients become ready after the last "
           "all-reduce: all "
           "gradients have equal sizes, and add up to what an iteration sums";
  throw core::InputError(fmt::format(
      "{}: /: expected shapes of gradients (a trace made with record_shapes=True), a model with its "
      "parameters (--model FILE), or all-reduces or reduce-scatters of known sizes, got none of them",
      core::one_line(trace.path)));
}

bool add_bucket_sizes(Trace& trace, const Calls& calls) {
  std::vector<std::vector<const Gradient*>> gradients(calls.steps.size());
  for (const Call& call : calls.calls)
    for (std::size_t i = 0; call.step >= 0 && i < call.gradients.size(); ++i)
      gradients[static_cast<std::size_t>(call.step)].push_back(&call.gradients[i]);
  for (auto& of_step : gradients)
    std::stable_sort(of_step.begin(), of_step.end(),
                     [](const Gradient* a, const Gradient* b) { return a->at_ns < b->at_ns; });
  std::size_t most = 0;
  for (const auto& of_step : gradients) most = std::max(most, of_step.size());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i)
    if (is_gradients(trace, calls, i, core::CollectiveKind::all_reduce) &&
        gradients[static_cast<std::size_t>(calls.work[i].step)].size() ==
            most)  // the trace holds it as a whole
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return calls.work[a].launched_ns < calls.work[b].launched_ns;
  });
  std::vector<std::size_t> next(calls.steps.size(), 0);
  bool any = false;
  for (const std::size_t i : order) {
    const auto step = static_cast<std::size_t>(calls.work[i].step);
    std::int64_t elements = 0;
    for (; next[step] < gradients[step].size() &&
           gradients[step][next[step]]->at_ns <= calls.work[i].launched_ns;
         ++next[step])
      elements = std::min(elements + gradients[step][next[step]]->elements, core::kMaxElements);
    Collective& sent = trace.collectives[static_cast<std::size_t>(trace.kernels[i].collective)];
    if (sent.in_elements > 0 || elements <= 0) continue;
    sent.in_elements = elements;
    any = true;
  }
  return any;
}

bool add_bucket_sizes_if_known(Trace& trace, Calls& calls, const std::vector<std::int64_t>& parameters) {
  if (!lacks_bucket_sizes(trace, calls)) return false;
  (void)keep_last_micro_batches(calls);
  const std::vector<Gradients> steps = by_step(calls);
  if (has_shapes(trace, steps))
    add_shapes(trace, steps);
  else if (most_gradients(steps) == parameters.size())
    add_parameters(trace, steps, parameters);
  return add_bucket_sizes(trace, calls);
}

}  // namespace kineto
