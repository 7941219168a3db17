#include "profiler/traces/ranks/read_kineto.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"
#include "profiler/traces/ranks/json_elements.hpp"

namespace ranks {
namespace {

using core::InputError;
using nlohmann::json;

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::size_t kMaxKept = 8'000'000;  // together with the texts below 1 GiB

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? found->dump() : "";
}

std::int64_t integer_of(const json& object, const char* key, std::int64_t otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  std::int64_t out = otherwise;
  if (found->is_number_unsigned() &&
      found->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return otherwise;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) return otherwise;
  const auto& text = found->get_ref<const std::string&>();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? out : otherwise;
}

/// What an operator, an annotation or a kernel says about a collective.
struct Said {
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
  std::int64_t sequence = -1;
  std::string id;
};

/// The number of elements of all inputs: "Input Dims" is a list of shapes, or of lists of shapes.
std::int64_t elements_of(const json& dims) {
  if (!dims.is_array() || dims.empty()) return 0;
  const bool is_shape =
      std::all_of(dims.begin(), dims.end(), [](const json& each) { return each.is_number_integer(); });
  std::int64_t out = is_shape ? 1 : 0;
  for (const json& each : dims) {
    const std::int64_t value = is_shape ? each.get<std::int64_t>() : elements_of(each);
    if (value < 0 || value > core::kMaxElements) return 0;
    out = is_shape ? out * value : out + value;
    if (out > core::kMaxElements) return 0;
  }
  return out;
}

std::string first_text(const json& list) {
  if (list.is_string()) return list.get<std::string>();
  if (!list.is_array()) return "";
  for (const json& each : list)
    if (std::string out = first_text(each); !out.empty()) return out;
  return "";
}

Said said_of(const std::string& name, const json& arguments) {
  Said out;
  if (arguments.is_object()) {
    out.collective = text_of(arguments, "Collective name");
    out.dtype = text_of(arguments, "dtype");
    out.in_elements = integer_of(arguments, "In msg nelems", 0);
    out.out_elements = integer_of(arguments, "Out msg nelems", 0);
    out.group_size = integer_of(arguments, "Group size", 0);
    out.group_name = text_of(arguments, "Process Group Name");
    out.group_description = text_of(arguments, "Process Group Description");
    out.group_ranks = text_of(arguments, "Process Group Ranks");
    if (const auto ranks = arguments.find("Process Group Ranks");
        ranks != arguments.end() && ranks->is_array())
      out.group_ranks = ranks->dump();
    out.rank_start = integer_of(arguments, "Global rank start", -1);
    out.rank_stride = integer_of(arguments, "Global rank stride", 0);
    out.sequence = integer_of(arguments, "Seq", -1);
    out.id = text_of(arguments, "Comms Id");
    if (out.id == "0") out.id.clear();
    if (out.dtype.empty())
      if (const auto types = arguments.find("Input type"); types != arguments.end())
        out.dtype = first_text(*types);
    if (out.in_elements <= 0)
      if (const auto dims = arguments.find("Input Dims"); dims != arguments.end())
        out.in_elements = elements_of(*dims);
  }
  if (out.collective.empty() && name.rfind("nccl:", 0) == 0) out.collective = name.substr(5);
  return out;
}

/// An operator or annotation on a host thread that surrounds the launch of a collective.
struct HostRange {
  Span span;
  std::string thread;
  Said said;
};

struct Launch {
  std::int64_t at_ns = 0;
  std::uint32_t thread = 0;
};

/// A communication kernel, before it is known which operator launched it.
struct Kernel {
  Span ran;
  std::int64_t correlation = 0;
  std::int64_t stream = -1;
  std::string name;
  Said said;
};

struct Config {
  std::string description;
  std::vector<std::int64_t> members;
  std::int64_t size = 0;
};

/// "[0, 1, 2, 3]"; nothing if the list is shortened ("...") or no list.
std::vector<std::int64_t> ranks_in(const std::string& text) {
  if (text.find("...") != std::string::npos) return {};
  const json list = json::parse(text, nullptr, false);
  std::vector<std::int64_t> out;
  if (!list.is_array()) return out;
  for (const json& each : list) {
    if (!each.is_number_integer()) return {};
    out.push_back(each.get<std::int64_t>());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view step) : step_(step) { trace_.path = path; }

  bool take(std::string_view key, json& value) {
    if (key.empty() || key == "traceEvents") {
      found_events_ = true;
      if (value.is_object()) event(value);
    } else if (key == "distributedInfo") {
      distributed(value);
    } else if (key == "deviceProperties" && trace_.device.empty() && value.is_object()) {
      trace_.device = text_of(value, "name");
    } else if (key == "baseTimeNanoseconds" && value.is_number_integer()) {
      const double base = value.get<double>();
      if (std::abs(base) < static_cast<double>(kMaxNs)) base_ns_ = value.get<std::int64_t>();
    }
    return true;
  }

  RankTrace finished() {
    if (!found_events_)
      throw InputError(
          fmt::format("{}: /: expected an array of events or an object with traceEvents, got neither",
                      core::one_line(trace_.path)));
    if (trace_.rank < 0) trace_.rank = rank_in_name(trace_.path);
    std::stable_sort(host_.begin(), host_.end(),
                     [](const HostRange& a, const HostRange& b) { return a.span.first < b.span.first; });
    std::vector<std::int64_t> launched;
    launched.reserve(kernels_.size());
    std::stable_sort(kernels_.begin(), kernels_.end(),
                     [](const Kernel& a, const Kernel& b) { return a.ran < b.ran; });
    for (Kernel& kernel : kernels_) {
      const auto launch = launches_.find(kernel.correlation);
      const bool is_known = launch != launches_.end();
      if (is_known) complete(kernel.said, launch->second);
      trace_.exchanges.push_back(exchange(kernel));
      launched.push_back(is_known ? launch->second.at_ns : kernel.ran.first);
    }
    trace_.origin_ns = base_ns_;
    finish(trace_, launched, compute_launches());
    return std::move(trace_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view got) const {
    throw InputError(
        fmt::format("{}: /traceEvents: expected {}, got {}", core::one_line(trace_.path), what, got));
  }

  /// Microseconds as nanoseconds: exact for up to three decimals.
  std::int64_t nanoseconds(const json& value) const {
    if (value.is_number_integer()) {
      const double us = value.get<double>();
      if (!(std::abs(us) < static_cast<double>(kMaxNs / kNsPerUs))) refuse("a time in us", value.dump());
      return value.get<std::int64_t>() * kNsPerUs;
    }
    if (!value.is_string()) refuse("a time in us", value.dump());
    const auto& text = value.get_ref<const std::string&>();
    const char* const end = text.data() + text.size();
    double us = 0;
    const auto [at, error] = std::from_chars(text.data(), end, us);
    if (error != std::errc() || at != end || !(std::abs(us) < static_cast<double>(kMaxNs / kNsPerUs)))
      refuse("a time in us", core::printable(text));
    std::int64_t whole = 0;
    const auto [point, bad] = std::from_chars(text.data(), end, whole);
    if (bad != std::errc() || point == end || *point != '.' || text.find_first_of("eE") != std::string::npos)
      return std::llround(us * static_cast<double>(kNsPerUs));
    std::int64_t fraction = 0;
    std::int64_t unit = kNsPerUs;
    for (const char* digit = point + 1; digit != end && unit > 1; ++digit) {
      unit /= 10;
      fraction += unit * (*digit - '0');
    }
    return whole * kNsPerUs + (text.front() == '-' ? -fraction : fraction);
  }

  void event(json& value) {
    if (text_of(value, "ph") != "X") return;
    const std::string category = text_of(value, "cat");
    const std::string name = text_of(value, "name");
    const bool is_kernel = category == "kernel" || category == "Kernel";
    const bool is_copy =
        category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" || category == "Memset";
    const bool is_launch = category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
                           category == "hip_runtime";
    const bool is_host = category == "cpu_op" || category == "Operator" || category == "user_annotation";
    const bool is_step = category == "user_annotation" && !step_.empty() && name.rfind(step_, 0) == 0;
    const bool is_comms = is_host && (name == "record_param_comms" || name.rfind("nccl:", 0) == 0);
    if (!is_kernel && !is_copy && !is_launch && !is_step && !is_comms) return;
    if (++kept_ > kMaxKept) refuse(fmt::format("at most {} kernels and launches", kMaxKept), "more");
    const auto start = value.find("ts");
    if (start == value.end()) refuse("an event with a time (ts)", "one without: " + core::printable(name));
    const auto lasted = value.find("dur");
    const std::int64_t from = nanoseconds(*start);
    const std::int64_t length = lasted == value.end() ? 0 : nanoseconds(*lasted);
    if (length < 0) refuse("an event that lasts 0 us or longer", core::printable(name));
    const Span span{from, from + length};
    static const json kNone = json::object();
    const auto found = value.find("args");
    const json& arguments = found == value.end() || !found->is_object() ? kNone : *found;
    if (is_kernel) return kernel(name, span, value, arguments);
    if (is_copy) return trace_.copies.push_back(span);
    const std::string thread = text_of(value, "pid") + '/' + text_of(value, "tid");
    if (is_launch) {
      const std::int64_t correlation = integer_of(arguments, "correlation", 0);
      if (correlation != 0) launches_[correlation] = {.at_ns = from, .thread = thread_id(thread)};
      return;
    }
    if (is_step) trace_.steps.push_back({.label = name.substr(step_.size()), .span = span});
    if (is_comms) host_.push_back({.span = span, .thread = thread, .said = said_of(name, arguments)});
  }

  std::uint32_t thread_id(const std::string& thread) {
    return threads_.try_emplace(thread, static_cast<std::uint32_t>(threads_.size())).first->second;
  }

  void kernel(const std::string& name, const Span& span, const json& value, const json& arguments) {
    const bool communicates = is_communication_kernel(name) || arguments.contains("Collective name");
    if (!communicates) {
      compute_.push_back({.at_ns = integer_of(arguments, "correlation", 0), .start_ns = span.first});
      return trace_.compute.push_back(span);
    }
    kernels_.push_back({.ran = span,
                        .correlation = integer_of(arguments, "correlation", 0),
                        .stream = integer_of(arguments, "stream", integer_of(value, "tid", -1)),
                        .name = name,
                        .said = said_of(name, arguments)});
  }

  void distributed(const json& value) {
    if (!value.is_object()) return;
    trace_.rank = integer_of(value, "rank", -1);
    trace_.world_size = integer_of(value, "world_size", 0);
    const auto found = value.find("pg_config");
    if (found == value.end()) return;
    const json parsed =
        found->is_string() ? json::parse(found->get_ref<const std::string&>(), nullptr, false) : *found;
    if (!parsed.is_array()) return;
    for (const json& each : parsed) {
      if (!each.is_object()) continue;
      Config config = {.description = text_of(each, "pg_desc"),
                       .size = integer_of(each, "pg_size", integer_of(each, "group_size", 0))};
      if (const auto ranks = each.find("ranks"); ranks != each.end())
        config.members = ranks_in(ranks->is_string() ? ranks->get<std::string>() : ranks->dump());
      configured_[text_of(each, "pg_name")] = std::move(config);
    }
  }

  /// Replaces correlations by the times of the launches.
  std::vector<Launched> compute_launches() {
    std::vector<Launched> out;
    for (const Launched& kernel : compute_)
      if (const auto launch = launches_.find(kernel.at_ns); launch != launches_.end())
        out.push_back({.at_ns = launch->second.at_ns, .start_ns = kernel.start_ns});
    return out;
  }

  /// Adds what the operators around the launch say that the kernel itself does not.
  void complete(Said& said, const Launch& launch) const {
    const auto after =
        std::upper_bound(host_.begin(), host_.end(), launch.at_ns,
                         [](std::int64_t at, const HostRange& range) { return at < range.span.first; });
    constexpr std::ptrdiff_t kNear = 64;
    const auto first = after - host_.begin() > kNear ? after - kNear : host_.begin();
    for (auto range = after; range != first;) {
      --range;
      if (range->span.second < launch.at_ns) continue;
      const auto thread = threads_.find(range->thread);
      if (thread == threads_.end() || thread->second != launch.thread) continue;
      merge(said, range->said);
    }
  }

  static void merge(Said& said, const Said& more) {
    const auto text = [](std::string& into, const std::string& from) {
      if (into.empty()) into = from;
    };
    const auto number = [](std::int64_t& into, std::int64_t from) {
      if (into <= 0) into = from;
    };
    text(said.collective, more.collective);
    if (said.in_elements <= 0 || said.dtype.empty()) {
      if (!more.dtype.empty()) said.dtype = more.dtype;
      number(said.in_elements, more.in_elements);
    }
    number(said.out_elements, more.out_elements);
    number(said.group_size, more.group_size);
    text(said.group_name, more.group_name);
    text(said.group_description, more.group_description);
    text(said.group_ranks, more.group_ranks);
    if (said.rank_start < 0) said.rank_start = more.rank_start;
    if (said.rank_stride <= 0) said.rank_stride = more.rank_stride;
    if (said.sequence < 0) said.sequence = more.sequence;
    text(said.id, more.id);
  }

  Exchange exchange(const Kernel& kernel) {
    const Said& said = kernel.said;
    Kind kind = kind_of(said.collective);
    if (kind == Kind::unknown) kind = kind_of(kernel.name);
    return {.ran = kernel.ran,
            .kind = kind,
            .group = group(said, kernel.stream),
            .sequence = said.sequence,
            .id = said.id,
            .bytes = bytes(said, kind)};
  }

  static std::int64_t bytes(const Said& said, Kind kind) {
    const std::int64_t each = kineto::element_bytes(said.dtype);
    std::int64_t elements = kind == Kind::all_gather ? said.out_elements : said.in_elements;
    // An operator that does not state its output: every rank adds as much as this one.
    if (kind == Kind::all_gather && elements <= 0 && said.group_size > 0 &&
        said.in_elements <= core::kMaxElements / said.group_size)
      elements = said.in_elements * said.group_size;
    return elements > 0 && elements <= core::kMaxElements ? elements * each : 0;
  }

  std::uint32_t group(const Said& said, std::int64_t stream) {
    LocalGroup group = {.name = said.group_name,
                        .description = said.group_description,
                        .members = members(said),
                        .size = said.group_size};
    const auto configured = configured_.find(said.group_name);
    if (!group.name.empty() && configured != configured_.end()) {
      if (group.members.empty()) group.members = configured->second.members;
      if (group.description.empty()) group.description = configured->second.description;
      if (group.size <= 0) group.size = configured->second.size;
    }
    if (group.size <= 0) group.size = static_cast<std::int64_t>(group.members.size());
    if (group.name.empty()) group.stream = stream;
    for (std::size_t i = 0; i < trace_.groups.size(); ++i) {
      LocalGroup& known = trace_.groups[i];
      if (known.name != group.name || known.stream != group.stream || known.members != group.members)
        continue;
      known.size = std::max(known.size, group.size);
      return static_cast<std::uint32_t>(i);
    }
    trace_.groups.push_back(std::move(group));
    return static_cast<std::uint32_t>(trace_.groups.size() - 1);
  }

  static std::vector<std::int64_t> members(const Said& said) {
    std::vector<std::int64_t> out = ranks_in(said.group_ranks);
    if (!out.empty() || said.rank_start < 0 || said.rank_stride <= 0 || said.group_size <= 0 ||
        said.group_size > core::kMaxWorkers || said.rank_stride > core::kMaxWorkers ||
        said.rank_start > core::kMaxWorkers)
      return out;
    for (std::int64_t i = 0; i < said.group_size; ++i) out.push_back(said.rank_start + i * said.rank_stride);
    return out;
  }

  RankTrace trace_;
  std::string step_;
  std::int64_t base_ns_ = 0;
  std::map<std::string, Config> configured_;
  std::vector<HostRange> host_;
  std::vector<Kernel> kernels_;
  std::vector<Launched> compute_;  ///< with the correlation in place of the time of the launch
  std::unordered_map<std::int64_t, Launch> launches_;
  std::map<std::string, std::uint32_t> threads_;
  std::size_t kept_ = 0;
  bool found_events_ = false;
};

}  // namespace

RankTrace read_kineto(const std::string& path, std::string_view step) {
  Reader reader(path, step);
  for_each_element(path, [&](std::string_view key, json& value) { return reader.take(key, value); });
  return reader.finished();
}

std::int64_t rank_in_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view word : {"rank", "worker"}) {
    const std::size_t found = name.find(word);
    if (found == std::string::npos) continue;
    std::size_t begin = found + word.size();
    while (begin < name.size() && (name[begin] == '_' || name[begin] == '-' || name[begin] == '.')) ++begin;
    std::int64_t out = -1;
    const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), out);
    if (error == std::errc() && out >= 0 && out < core::kMaxWorkers) return out;
  }
  return -1;
}

}  // namespace ranks
