#include "profiler/traces/kineto/read_trace.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/clean_trace.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"
#include "profiler/traces/kineto/gzip_stream.hpp"
#include "profiler/traces/kineto/host_kernels.hpp"
#include "profiler/traces/kineto/shapes.hpp"

namespace kineto {
namespace {

using core::InputError;

constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::int64_t kNsPerUs = 1000;
// Together they keep the memory below 2 GiB.
constexpr std::size_t kMaxKept = 4'000'000;
constexpr std::size_t kMaxTextBytes = std::size_t{128} << 20U;
constexpr std::size_t kMaxShapes = std::size_t{1} << 20U;
constexpr std::size_t kMaxRanks = std::size_t{16} << 20U;

/// The event that is being read.
struct Event {
  std::string phase;
  std::string category;
  std::string name;
  std::string pid;
  std::string tid;
  std::optional<std::int64_t> start_ns;  ///< none: not given, or no time
  std::int64_t duration_ns = 0;          ///< less than 0: no time
  std::int64_t correlation = 0;
  std::int64_t sequence = -1;
  std::int64_t external = 0;
  std::int64_t bytes = 0;
  std::string shapes;
  std::string collective;
  std::string dtype;
  std::int64_t in_elements = 0;
  std::int64_t out_elements = 0;
  std::int64_t group_size = 0;
  std::string group_name;
  std::string group_description;
  std::string group_ranks;
  std::int64_t rank_start = -1;
  std::int64_t rank_stride = 0;
  std::int64_t collective_sequence = -1;
  std::string collective_id;
  std::int64_t stream = -1;
};

/// Receives the parser's events. Depth 1 is the document; trace events are objects in the top-level array or
/// in the one under "traceEvents".
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(Trace& trace, GzipStream& stream) : trace_(&trace), stream_(&stream) {}

  bool null() override {
    if (in_event_ && arguments_depth_ == 0 && depth_ == event_depth_) set_time(std::nullopt);
    return scalar("null");
  }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (in_event_ && depth_ == arguments_depth_ && key_ == "Comms Id") {
      set_collective_id(fmt::to_string(value));  // a hash, which may be above the limits of the others
      return scalar();
    }
    constexpr auto kMax = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return integer(static_cast<std::int64_t>(std::min(value, kMax)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (in_shapes()) return refuse("whole numbers in Input Dims", text);
    if (!in_event_) return scalar(text);
    if (arguments_depth_ == 0 && depth_ == event_depth_) {
      set_time(nanoseconds(text, value));
    }
    return scalar();
  }
  bool string(string_t& value) override {
    if (in_event_) {
      text(value);
    } else if (in_devices_ && key_ == "name" && trace_->device.empty()) {
      trace_->device = value;
    } else if (is_groups()) {
      trace_->groups_json.clear();
      add_to_groups(value);  // some versions write the list as text
      return scalar();
    }
    return groups_depth_ == 0 ? scalar() : scalar(nlohmann::json(value).dump());
  }
  bool binary(binary_t& /*value*/) override { return true; }

  bool start_object(std::size_t /*size*/) override {
    begin_of_groups('{');
    ++depth_;
    if (in_events_ && depth_ == event_depth_) {
      in_event_ = true;
      event_ = {};
      arguments_depth_ = 0;
    } else if (in_event_ && depth_ == event_depth_ + 1 && key_ == "args") {
      arguments_depth_ = depth_;
    }
    return check_depth();
  }
  bool key(string_t& value) override {
    stream_->end_token();
    if (groups_depth_ > 0) {
      add_to_groups(nlohmann::json(value).dump());
      add_to_groups(":");
    }
    key_ = value;
    if (depth_ == 1) top_key_ = value;
    return true;
  }
  bool end_object() override {
    stream_->end_token();
    if (in_event_ && depth_ == event_depth_) {
      in_event_ = false;
      keep();
    }
    if (depth_ == arguments_depth_) arguments_depth_ = 0;
    --depth_;
    end_of_groups('}');
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    begin_of_groups('[');
    ++depth_;
    if (in_shapes()) {
      event_.shapes += '[';
      if (event_.shapes.size() > kMaxShapes) refuse("an Input Dims of at most 1 MiB", "more");
    } else if (in_event_ && depth_ == arguments_depth_ + 1 && arguments_depth_ > 0 && is_shapes(key_)) {
      shapes_depth_ = depth_;
      event_.shapes = '[';
    } else if (in_event_ && is_list_of_ranks()) {
      event_.group_ranks = '[';
    } else if (depth_ == 1 || (depth_ == 2 && top_key_ == "traceEvents")) {
      in_events_ = true;
      found_events_ = true;
      event_depth_ = depth_ + 1;
    } else if (depth_ == 2 && top_key_ == "deviceProperties") {
      in_devices_ = true;
    }
    return check_depth();
  }
  bool end_array() override {
    stream_->end_token();
    if (in_shapes()) {
      event_.shapes += "],";
      if (depth_ == shapes_depth_) shapes_depth_ = 0;
    }
    if (in_event_ && is_list_of_ranks()) {
      if (event_.group_ranks.ends_with(',')) event_.group_ranks.pop_back();
      event_.group_ranks += ']';
    }
    if (in_events_ && depth_ == event_depth_ - 1) in_events_ = false;
    if (in_devices_ && depth_ == 2) in_devices_ = false;
    --depth_;
    end_of_groups(']');
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr)
      return refuse("a number that fits a double", token);
    if (stream_at_end()) {
      trace_->is_cut_off = true;
      return false;
    }
    throw InputError(fmt::format("{}:{}:{}: expected JSON, got '{}'", file(), stream_->line(),
                                 std::max<std::int64_t>(1, stream_->column() - 1), core::printable(token)));
  }

  bool found_events() const { return found_events_; }

 private:
  bool scalar(std::string_view text = "") {
    stream_->end_token();
    if (groups_depth_ == 0) return true;
    add_to_groups(text);
    add_to_groups(",");
    return true;
  }

  /// The list of process groups is kept as JSON.
  bool is_groups() const { return depth_ == 2 && top_key_ == "distributedInfo" && key_ == "pg_config"; }
  void begin_of_groups(char bracket) {
    if (groups_depth_ == 0 && !is_groups()) return;
    if (groups_depth_ == 0) {
      trace_->groups_json.clear();
      groups_depth_ = depth_;
    }
    add_to_groups(std::string_view(&bracket, 1));
  }
  void end_of_groups(char bracket) {
    if (groups_depth_ == 0) return;
    if (trace_->groups_json.ends_with(',')) trace_->groups_json.pop_back();
    trace_->groups_json += bracket;
    if (depth_ > groups_depth_)
      trace_->groups_json += ',';
    else
      groups_depth_ = 0;
  }
  void add_to_groups(std::string_view text) {
    constexpr std::size_t kMax = std::size_t{16} << 20U;
    trace_->groups_json += text;
    if (trace_->groups_json.size() > kMax) refuse("a pg_config of at most 16 MiB", "more");
  }

  bool is_list_of_ranks() const {
    return arguments_depth_ > 0 && depth_ == arguments_depth_ + 1 && key_ == "Process Group Ranks";
  }

  void set_collective_id(std::string id) {
    if (id != "0") event_.collective_id = std::move(id);
  }
  bool in_shapes() const { return shapes_depth_ > 0; }
  std::string file() const { return core::one_line(trace_->path); }
  bool stream_at_end() const { return stream_->at_end(); }

  [[noreturn]] bool refuse(std::string_view what, std::string_view got) const {
    throw InputError(
        fmt::format("{}:{}: expected {}, got {}", file(), stream_->line(), what, core::printable(got)));
  }

  bool check_depth() {
    stream_->end_token();
    constexpr int kMax = 100;
    if (depth_ > kMax) refuse(fmt::format("nesting of at most {}", kMax), "more");
    return true;
  }

  void set_time(std::optional<std::int64_t> ns) {
    if (key_ == "ts") event_.start_ns = ns;
    if (key_ == "dur") event_.duration_ns = ns.value_or(-1);
  }

  /// Reads "1739425750467006.123" us to the nanosecond, which a double cannot represent.
  static std::optional<std::int64_t> nanoseconds(const std::string& text, double value) {
    constexpr std::int64_t kMaxUs = kMaxNs / kNsPerUs;
    if (!(std::abs(value) < static_cast<double>(kMaxUs))) return std::nullopt;
    std::int64_t whole = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, whole);
    if (error != std::errc() || stopped == end || *stopped != '.' ||
        text.find_first_of("eE") != std::string::npos)
      return static_cast<std::int64_t>(std::llround(value * kNsPerUs));
    std::int64_t fraction = 0;
    std::int64_t unit = kNsPerUs;
    for (const char* digit = stopped + 1; digit != end && unit > 1; ++digit) {
      unit /= 10;
      fraction += unit * (*digit - '0');
    }
    return whole * kNsPerUs + (text.front() == '-' ? -fraction : fraction);
  }

  bool integer(std::int64_t value) {
    (void)(groups_depth_ == 0 ? scalar() : scalar(fmt::to_string(value)));
    if (in_shapes()) {
      event_.shapes += fmt::format("{},", value);
      if (event_.shapes.size() > kMaxShapes) refuse("an Input Dims of at most 1 MiB", "more");
      return true;
    }
    if (!in_event_) {
      of_document(value);
      return true;
    }
    if (is_list_of_ranks() && event_.group_ranks.starts_with('[')) {
      event_.group_ranks += fmt::format("{},", value);
      if (event_.group_ranks.size() > kMaxRanks) refuse("Process Group Ranks of at most 16 MiB", "more");
    } else if (depth_ == arguments_depth_) {
      argument(value);
    } else if (depth_ == event_depth_) {
      const bool is_time = value >= -kMaxNs / kNsPerUs && value <= kMaxNs / kNsPerUs;
      set_time(is_time ? std::optional(value * kNsPerUs) : std::nullopt);
      if (key_ == "pid") event_.pid = fmt::to_string(value);
      if (key_ == "tid") event_.tid = fmt::to_string(value);
    }
    return true;
  }

  void of_document(std::int64_t value) {
    if (depth_ == 1 && key_ == "baseTimeNanoseconds" && value > -kMaxNs && value < kMaxNs)
      trace_->base_ns = value;
    if (depth_ != 2 || top_key_ != "distributedInfo" || value < 0 || value > core::kMaxWorkers) return;
    if (key_ == "world_size") trace_->world_size = value;
    if (key_ == "rank") trace_->rank = value;
  }

  void argument(std::int64_t value) {
    if (key_ == "correlation") event_.correlation = value;
    if (key_ == "Sequence number") event_.sequence = value;
    if (key_ == "External id" || key_ == "external id") event_.external = value;
    if (key_ == "bytes") event_.bytes = value;
    if (key_ == "In msg nelems") event_.in_elements = value;
    if (key_ == "Out msg nelems") event_.out_elements = value;
    if (key_ == "Group size") event_.group_size = value;
    if (key_ == "Global rank start") event_.rank_start = value;
    if (key_ == "Global rank stride") event_.rank_stride = value;
    if (key_ == "Seq") event_.collective_sequence = value;
    if (key_ == "stream") event_.stream = value;
    if (key_ == "Comms Id") set_collective_id(fmt::to_string(value));
    if (key_ == "Process Group Name") event_.group_name = fmt::to_string(value);
  }

  /// Some versions and some tools write numbers as text.
  void number_in_text(const std::string& value) {
    std::int64_t number = 0;
    const char* const end = value.data() + value.size();
    const auto [stopped, error] = std::from_chars(value.data(), end, number);
    if (error == std::errc() && stopped == end) argument(number);
  }

  static std::optional<std::int64_t> time_in_text(const std::string& text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stopped != end) return std::nullopt;
    return nanoseconds(text, value);
  }

  /// Tuples of sizes, "((512, 3), (4))", are read as lists.
  void shapes_in_text(std::string value) {
    if (value.size() > kMaxShapes) refuse("an Input Dims of at most 1 MiB", "more");
    std::replace(value.begin(), value.end(), '(', '[');
    std::replace(value.begin(), value.end(), ')', ']');
    event_.shapes = std::move(value);
  }

  void text(const std::string& value) {
    if (depth_ == arguments_depth_) {
      if (is_shapes(key_)) shapes_in_text(value);
      number_in_text(value);
      if (key_ == "Collective name") event_.collective = value;
      if (key_ == "dtype" || (key_ == "Input type" && event_.dtype.empty())) event_.dtype = value;
      if (key_ == "Process Group Name") event_.group_name = value;
      if (key_ == "Process Group Description") event_.group_description = value;
      if (key_ == "Process Group Ranks") event_.group_ranks = value;
      if (key_ == "Comms Id") set_collective_id(value);
    } else if (arguments_depth_ > 0 && depth_ == arguments_depth_ + 1) {
      if (key_ == "Input type" && event_.dtype.empty()) event_.dtype = value;
    } else if (depth_ == event_depth_) {
      if (key_ == "ph") event_.phase = value;
      if (key_ == "cat") event_.category = value;
      if (key_ == "name") event_.name = value;
      if (key_ == "pid") event_.pid = value;
      if (key_ == "tid") event_.tid = value;
      set_time(time_in_text(value));
    }
  }

  /// PyTorch 1.8 writes "Input dims".
  static bool is_shapes(const std::string& key) { return key == "Input Dims" || key == "Input dims"; }

  static bool is_module(const std::string& name) { return name.rfind("nn.Module: ", 0) == 0; }

  static std::optional<RangeKind> range_kind(const Event& event) {
    if (event.category == "cpu_op" || event.category == "Operator") return RangeKind::operation;
    if (event.category == "user_annotation") return RangeKind::annotation;
    if (event.category == "python_function" && is_module(event.name)) return RangeKind::module;
    return std::nullopt;
  }

  static bool is_launch(const std::string& category) {
    return category.ends_with("_runtime") || category.ends_with("_driver") || category == "Runtime";
  }
  /// Whether the host thread waits in this call until the GPU has finished earlier work.
  static bool blocks(const std::string& call) {
    return call.find("Synchronize") != std::string::npos || call == "cudaMemcpy" || call == "hipMemcpy" ||
           call == "hipMemcpyWithStream";
  }
  static bool is_kernel(const std::string& category) {
    return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset" ||
           category == "Kernel" || category == "Memcpy" || category == "Memset";
  }

  /// Keeps only events with a duration, and only known kinds of them.
  void keep() {
    ++trace_->events;
    if (event_.phase != "X") return;
    if (event_.category.empty() && event_.pid == "CPU functions") trace_->is_of_autograd = true;
    const std::optional<RangeKind> kind = range_kind(event_);
    const bool launch = is_launch(event_.category);
    const bool kernel = is_kernel(event_.category);
    if (!kind && !launch && !kernel) return;
    if (++kept_ > kMaxKept || trace_->texts.bytes() > kMaxTextBytes)
      refuse(fmt::format("at most {} operators, launches and kernels, and {} MiB of different names",
                         kMaxKept, kMaxTextBytes >> 20U),
             "more");
    if (!has_time()) {
      if (kernel)
        trace_->lost.push_back(event_.correlation);
      else
        ++trace_->broken;
      return;
    }
    const std::int64_t start = *event_.start_ns;
    const std::int64_t end = start + event_.duration_ns;
    if (kind) {
      trace_->ranges.push_back({.start_ns = start,
                                .end_ns = end,
                                .sequence = event_.sequence,
                                .external = event_.external,
                                .name = trace_->texts.id(event_.name),
                                .thread = thread(),
                                .shapes = trace_->texts.id(event_.shapes),
                                .dtype = trace_->texts.id(event_.dtype),
                                .collective = says_collective(*kind) ? add_collective() : -1,
                                .kind = *kind});
    } else if (launch) {
      if (event_.name.find("GraphLaunch") != std::string::npos) trace_->has_graphs = true;
      if (blocks(event_.name)) trace_->blocked.emplace_back(start, end);
      if (event_.correlation != 0) {
        trace_->launches.push_back(
            {.at_ns = start, .end_ns = end, .correlation = event_.correlation, .thread = thread()});
        if (event_.name.find("LaunchKernel") != std::string::npos) add_process();
      }
    } else {
      keep_kernel(start, end);
    }
  }

  /// The profiler writes 0 and 0 for work whose times it lost.
  bool has_time() const {
    return event_.start_ns && event_.duration_ns >= 0 && (*event_.start_ns != 0 || event_.duration_ns != 0);
  }

  void add_process() {
    if (first_process_.empty()) first_process_ = event_.pid;
    trace_->several_processes = trace_->several_processes || event_.pid != first_process_;
  }

  /// The length keeps threads apart whose names hold a slash.
  TextId thread() const {
    return trace_->texts.id(fmt::format("{}/{}/{}", event_.pid.size(), event_.pid, event_.tid));
  }

  /// Around the launch of a collective there is an operator, and in it an annotation, that describe it.
  bool says_collective(RangeKind kind) const {
    return kind != RangeKind::module &&
           (event_.name == "record_param_comms" || event_.name.starts_with("nccl:"));
  }

  std::int32_t add_collective() {
    constexpr std::size_t kPrefix = 5;  // length of "nccl:"
    if (event_.collective.empty() && event_.name.starts_with("nccl:"))
      event_.collective = event_.name.substr(kPrefix);
    if (event_.in_elements <= 0) event_.in_elements = elements_in(event_.shapes);
    Texts& texts = trace_->texts;
    trace_->collectives.push_back({.name = texts.id(event_.collective),
                                   .dtype = texts.id(event_.dtype),
                                   .in_elements = event_.in_elements,
                                   .out_elements = event_.out_elements,
                                   .group_size = event_.group_size,
                                   .group_name = texts.id(event_.group_name),
                                   .group_description = texts.id(event_.group_description),
                                   .group_ranks = texts.id(event_.group_ranks),
                                   .rank_start = event_.rank_start,
                                   .rank_stride = event_.rank_stride,
                                   .sequence = event_.collective_sequence,
                                   .id = texts.id(event_.collective_id),
                                   .stream = event_.stream >= 0 ? event_.stream : stream_of_thread()});
    return static_cast<std::int32_t>(trace_->collectives.size() - 1);
  }

  std::int64_t stream_of_thread() const {
    std::int64_t out = -1;
    (void)std::from_chars(event_.tid.data(), event_.tid.data() + event_.tid.size(), out);
    return out;
  }

  /// All times that are added up later are parts of this sum.
  void keep_kernel(std::int64_t start, std::int64_t end) {
    if (end - start > kMaxNs - kernels_ns_)
      refuse(fmt::format("kernels that take at most {} us in all", kMaxNs / kNsPerUs), "more");
    kernels_ns_ += end - start;
    Kernel kernel = {.start_ns = start,
                     .end_ns = end,
                     .correlation = event_.correlation,
                     .external = event_.external,
                     .bytes = event_.bytes,
                     .name = trace_->texts.id(event_.name)};
    const bool is_kernel = event_.category == "kernel" || event_.category == "Kernel";
    if (is_kernel && (!event_.collective.empty() || is_communication_kernel(event_.name)))
      kernel.collective = add_collective();
    trace_->kernels.push_back(kernel);
  }

  Trace* trace_;
  GzipStream* stream_;
  Event event_;
  std::int64_t kernels_ns_ = 0;
  std::size_t kept_ = 0;
  std::string key_;
  std::string top_key_;
  std::string first_process_;  ///< that launched a kernel
  int depth_ = 0;
  int event_depth_ = 0;
  int arguments_depth_ = 0;
  int shapes_depth_ = 0;
  int groups_depth_ = 0;  ///< of what the list of process groups is in, while it is read
  bool in_events_ = false;
  bool in_event_ = false;
  bool in_devices_ = false;
  bool found_events_ = false;
};

/// What a trace without kernels is.
std::string without_kernels(const Trace& trace) {
  if (trace.is_cut_off) return fmt::format("a file that is cut off after {} events", trace.events);
  if (trace.events == 0)
    return "an empty trace, exported before anything was recorded: call step() of torch.profiler.profile in "
           "every iteration, as often as its schedule waits, warms up and is active, and export then";
  if (trace.is_of_autograd)
    return "a trace of torch.autograd.profiler without Kineto, which holds neither kernels nor what connects "
           "forward and backward; record it with torch.profiler.profile, or with fusewise.torch, which "
           "profiles jobs of builds without Kineto (docs/pytorch.md)";
  if (!trace.launches.empty() && trace.lost.empty())
    return fmt::format(
        "none beside {} launches: the profiler was told nothing of the GPU, as where another one uses it or "
        "the driver allows that to administrators alone",
        trace.launches.size());
  return fmt::format(
      "none in {} events; a job on a GPU needs torch.profiler.ProfilerActivity.CUDA, and one on CPUs a trace "
      "with operators (docs/traces.md)",
      trace.events);
}

}  // namespace

void check_has_kernels(const Trace& trace) {
  if (trace.kernels.empty())
    throw InputError(fmt::format("{}: /: expected kernels of a GPU, got {}", core::one_line(trace.path),
                                 without_kernels(trace)));
}

Trace read_trace(const std::string& path) {
  Trace trace;
  trace.path = path;
  GzipStream buffer(path, true);
  std::istream stream(&buffer);
  stream.exceptions(std::ios::badbit);  // otherwise a damaged archive would look like its end
  Reader reader(trace, buffer);
  nlohmann::json::sax_parse(stream, &reader);
  if (trace.is_cut_off && trace.events == 0)
    throw InputError(fmt::format("{}:{}: expected JSON, got the end of the file before any event",
                                 core::one_line(path), buffer.line()));
  if (!reader.found_events())
    throw InputError(
        fmt::format("{}: /: expected an array of events or an object with traceEvents, got neither",
                    core::one_line(path)));
  trace.repaired = buffer.repaired();
  clean(trace);
  add_host_kernels(trace);
  return trace;
}

}  // namespace kineto
