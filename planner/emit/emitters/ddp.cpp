// PyTorch's DistributedDataParallel. A bucket takes the next gradient, then closes when it holds its cap or
// more; buckets never split a tensor, and each dtype and device has its own
// (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size). The caps are int(mb * 1024 *
// 1024); the last cap also applies to every later bucket. `bucket_cap_mb_list` exists since PyTorch 2.11
// (pull request 169026). Earlier releases have two caps: dist._DEFAULT_FIRST_BUCKET_BYTES, 1 MiB by default,
// and bucket_cap_mb. Newer releases (pull request 121640) apply a given bucket_cap_mb to the first bucket
// too; setting both to the same value makes all releases behave alike. With DDP_SET_LAST_BUCKET_CAP=1 the
// buckets are counted from the input's side, so that the one with the first cap is sent last.

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/emit/emitters/ddp_caps.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {

using nlohmann::ordered_json;

namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kDefaultFirstBucket = kMiB;

Behaviour behaves(const PlanFile& /*plan*/, const Workload& /*workload*/) {
  return all_reduces(
      "one all-reduce for each bucket, under backward, in the last micro-batch, if the others run under "
      "no_sync()");
}

const Target& target() {
  static const Target target = {
      .name = "ddp",
      .framework = "DDP",
      .behaves = behaves,
      .verified =
          {"PyTorch 1.13 and 2.13 made the buckets, read back through a communication hook; 2.10 lacks "
           "bucket_cap_mb_list, 2.11 has it."},
      .does_not = {
          "compress: a communication hook does (--emit comm-hook).",
          "make these buckets under torch.compile, where DDPOptimizer cuts the graph at the largest "
          "cap, unless torch._dynamo.config.optimize_ddp = False; the Python reducer refuses lists."}};
  return target;
}

ordered_json number(const std::string& text) { return ordered_json::parse(text); }

/// The best bucket_cap_mb, given the caps of the first buckets.
struct BestMb {
  BestCap cap;
  std::string mb;
  ordered_json json;
};

/// The buckets with DDP_SET_LAST_BUCKET_CAP=1.
Capped close_from_input(Sizes sizes, std::int64_t cap, const Sizes& first_caps) {
  std::ranges::reverse(sizes);
  Capped out = close_at(sizes, cap, first_caps);
  std::ranges::reverse(out.groups);
  const auto count = static_cast<std::uint32_t>(sizes.size());
  for (Group& group : out.groups) group = {.begin = count - group.end, .end = count - group.begin};
  return out;
}

BestMb best_mb(const Report& report, const Sizes& bytes,
               const std::function<double(const Groups&)>& iteration_us, const Sizes& first_caps,
               bool counts_from_input = false) {
  BestMb best;
  best.cap = best_cap(
      [&](std::int64_t cap) {
        return counts_from_input ? close_from_input(bytes, cap, first_caps)
                                 : close_at(bytes, cap, first_caps);
      },
      iteration_us);
  const std::int64_t all_in_mib =
      (std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}) / kMiB + 1) * kMiB;
  const std::int64_t max = best.cap.max > 0 ? best.cap.max : all_in_mib;
  best.mb = mib_text(best.cap.min, max);
  best.json = report.best_cost("bucket_cap_mb", number(best.mb), best.cap);
  best.json["first_bucket_bytes"] = first_caps.empty() ? bytes_of_mib(best.mb) : first_caps.front();
  return best;
}

std::string text_of(const BestMb& all, const BestMb& small_first, const BestMb& small_last) {
  std::string out = fmt::format(
      "#\n# Before 2.11 one number holds for all buckets, if it is also set for the first:\n"
      "#   torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = {}\n"
      "#   DistributedDataParallel(model, bucket_cap_mb={})\n"
      "# makes {}\n# ({})\n",
      all.json["first_bucket_bytes"].get<std::int64_t>(), all.mb, Report::cost_text(all.json),
      Report::tried_text(all.cap));
  out += fmt::format(
      "# Where the first bucket keeps its 1 MiB (so in 1.13), bucket_cap_mb={} does best:\n# {}\n"
      "# With DDP_SET_LAST_BUCKET_CAP=1 in the environment that bucket is the last one, and bucket_cap_mb={} "
      "does best:\n# {}\n#\n",
      small_first.mb, Report::cost_text(small_first.json), small_last.mb, Report::cost_text(small_last.json));
  return out;
}

void add_notes(Report& report) {
  report.note(
      "Holds from the second iteration on, when DDP has put gradients in the order in which they become "
      "ready; find_unused_parameters=True without static_graph=True keeps it from doing so.");
  report.note("Gradients of several dtypes or devices get buckets, and use up caps, of their own.");
}

Emission emit_ddp(const EmitRequest& request) {
  Report report(target(), request);
  const Workload& workload = request.workload;
  const GradientTypes types = gradient_types(request.types, workload.profile->dtype);
  const Sizes bytes = gradient_bytes_in(types.own, workload);
  const DdpCaps caps = ddp_caps(bytes, in_order(request.groups));
  const Sizes first_caps(caps.bytes.begin(), caps.bytes.end() - 1);
  report.made(close_at(bytes, caps.bytes.back(), first_caps).groups);
  add_notes(report);
  note_types(report, types);
  const OlderReleases older =
      older_releases(report, bytes, [&](const Groups& groups) { return report.iteration_us(groups); });
  return {.text = report.heading() + ddp_lines(caps, request) + converting_hook(types) + older.text +
                  report.remarks(),
          .json = report.json({{"bucket_cap_mb_list", caps.json()},
                               {"bucket_bytes_cap_list", caps.bytes},
                               {"least_pytorch", "2.11"},
                               {"best_single_cap", older.best_single_cap},
                               {"best_single_cap_after_1_mib", older.after_1_mib},
                               {"best_single_cap_before_1_mib", older.before_1_mib}})};
}

}  // namespace

ordered_json DdpCaps::json() const {
  ordered_json out = ordered_json::array();
  for (const std::string& text : mb) out.push_back(number(text));
  return out;
}

DdpCaps ddp_caps(const Sizes& bytes, const Groups& groups) {
  DdpCaps out;
  for (const Group& group : groups) {
    const std::int64_t before_last =
        std::accumulate(bytes.begin() + group.begin, bytes.begin() + group.end - 1, std::int64_t{0});
    out.mb.push_back(mib_text(before_last + 1, before_last + bytes[group.end - 1]));
    out.bytes.push_back(bytes_of_mib(out.mb.back()));
  }
  return out;
}

OlderReleases older_releases(const Report& report, const Sizes& bytes,
                             const std::function<double(const Groups&)>& iteration_us) {
  const BestMb all = best_mb(report, bytes, iteration_us, {});
  const BestMb small_first = best_mb(report, bytes, iteration_us, {kDefaultFirstBucket});
  const BestMb small_last = best_mb(report, bytes, iteration_us, {kDefaultFirstBucket}, true);
  return {.text = text_of(all, small_first, small_last),
          .best_single_cap = all.json,
          .after_1_mib = small_first.json,
          .before_1_mib = small_last.json};
}

std::string ddp_lines(const DdpCaps& caps, const EmitRequest& request) {
  std::string out = fmt::format(
      "model = torch.nn.parallel.DistributedDataParallel(\n"
      "    model,\n"
      "    bucket_cap_mb_list=[{}],  # PyTorch 2.11 or later\n"
      ")\n",
      fmt::join(caps.mb, ", "));
  if (request.accumulation_steps < 2) return out;
  return out + fmt::format(
                   "\n"
                   "import contextlib\n"
                   "\n"
                   "def micro_batch(model, number):  # a context for forward and backward of each of the {}, "
                   "from 0 on\n"
                   "    return contextlib.nullcontext() if number == {} else model.no_sync()\n"
                   "\n",
                   request.accumulation_steps, request.accumulation_steps - 1);
}

std::string converting_hook(const GradientTypes& types) {
  if (!types.converts()) return "";
  return fmt::format(
      "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
      "model.register_comm_hook(None, default_hooks.{}_compress_hook)\n",
      types.sent == core::Dtype::bfloat16 ? "bf16" : "fp16");
}

void note_types(Report& report, const GradientTypes& types) {
  const core::Dtype profile = report.request().workload.profile->dtype;
  if (const std::string note = types_note("DDP", types, profile); !note.empty()) report.note(note);
  if (profile != core::Dtype::float32 || types.own != core::Dtype::float32)
    report.note(fmt::format("Caps count gradients of {}.", core::name(types.own)));
  if (types.converts())
    report.note(
        fmt::format("The hook reduces them in {}; converting them is not priced.", core::name(types.sent)));
}

Emitter ddp_emitter() {
  return {"ddp", "PyTorch DistributedDataParallel: bucket_cap_mb_list", emit_ddp, target};
}

}  // namespace planner
