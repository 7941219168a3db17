#include "profiler/traces/ranks/source_kind.hpp"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "core/json.hpp"
#include "profiler/traces/ranks/json_elements.hpp"

namespace ranks {
namespace {

using core::InputError;
using nlohmann::json;

constexpr std::string_view kRecordInstead =
    "a torch.profiler trace (prof.export_chrome_trace) of each rank; fusewise imports these";

[[noreturn]] void unusable(const std::string& path, std::string_view kind, std::string_view why,
                           std::string_view instead = kRecordInstead) {
  throw InputError(fmt::format("{}: /: expected {}, got {}, {}", core::one_line(path), instead, kind, why));
}

/// What the `format` of every file of fusewise begins with.
constexpr std::string_view kFormats = "fusewise.";

/// The first bytes, decompressed if they are gzip.
std::string head_of(const std::string& path) {
  constexpr std::size_t kEnough = 1U << 12U;
  std::string out(kEnough, '\0');
  try {
    core::Descriptor in = core::open_input(path);
    const gzFile file = gzdopen(in.get(), "rb");
    if (file == nullptr) throw core::EnvironmentError("out of memory for decompression");
    (void)in.release();  // gzclose() closes it
    const int size = gzread(file, out.data(), static_cast<unsigned>(out.size()));
    gzclose(file);
    out.resize(static_cast<std::size_t>(std::max(size, 0)));
  } catch (const core::ReadError&) {
    return "";  // whoever reads the file says why it cannot be read
  }
  return out;
}

bool starts_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

void reject_binary(const std::string& path, std::string_view head) {
  const std::string extension = std::filesystem::path(path).extension().string();
  constexpr std::size_t kTarMagic = 257;
  if (head.size() > kTarMagic + 5 && head.substr(kTarMagic, 5) == "ustar")
    unusable(path, "a tar archive", "whose files have to be unpacked first",
             "a trace, or a folder with the traces of all ranks");
  if (starts_with(head, "PK\x03\x04"))
    unusable(path, "a zip archive", "whose files have to be unpacked first",
             "a trace, or a folder with the traces of all ranks");
  if (extension == ".nsys-rep" || extension == ".qdrep" || extension == ".qdstrm")
    unusable(path, "a report of Nsight Systems", "whose format only its own tools read",
             "its SQLite export (nsys export --type sqlite REPORT)");
  const bool is_pickle = head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
  if (is_pickle &&
      (head.find("pg_config") != std::string_view::npos ||
       head.find("nccl_version") != std::string_view::npos || head.find("entries") != std::string_view::npos))
    unusable(path, "a dump of PyTorch's flight recorder",
             "which holds the order of collectives for finding hangs, and no times of kernels");
  if (is_pickle) unusable(path, "a Python pickle", "which may run code when it is read");
  // A Chakra trace is a sequence of messages, each after its length; the first holds the version of its
  // schema.
  if (head.size() > 8 && head.substr(1, 1) == "\x0a" && head.substr(3, 2) == "0." &&
      (extension == ".et" || head.find('\0') != std::string_view::npos))
    unusable(path, "a Chakra execution trace (protobuf)",
             "which holds operators without the times of their kernels");
}

/// What the first elements of a JSON file show.
struct Shown {
  bool events = false;
  bool nodes = false;
  bool schema = false;
  bool chakra = false;
  bool horovod = false;
  bool recorder_entries = false;
  bool recorder_key = false;
  bool inspector = false;
  std::string format;
  int elements = 0;
};

/// Returns false when it is clear what the file is.
bool look(std::string_view key, const json& value, Shown& shown) {
  constexpr int kEnough = 400;
  if (key == "traceEvents" || key.empty()) {
    shown.events = shown.events || (value.is_object() && value.contains("ph"));
    if (value.is_object() && value.contains("name") && value["name"].is_string()) {
      const auto& name = value["name"].get_ref<const std::string&>();
      if (name.find("NEGOTIATE_") != std::string::npos || name.find("FUSION_BUFFER") != std::string::npos)
        shown.horovod = true;
    }
    if (value.is_object() && value.contains("cat")) return false;  // Horovod's events have no category
    return !shown.horovod && ++shown.elements < kEnough;
  }
  if (key == "nodes") {
    shown.nodes = true;
    return false;
  }
  shown.chakra = shown.chakra || key == "workload_graph";
  shown.recorder_entries = shown.recorder_entries || key == "entries";
  shown.recorder_key =
      shown.recorder_key || key == "pg_config" || key == "pg_status" || key == "nccl_version";
  shown.inspector = shown.inspector || key == "coll_perf";
  if (key == "format" && value.is_string()) shown.format = value.get<std::string>();
  return !shown.chakra && !shown.inspector && shown.format.empty() &&
         !(shown.recorder_entries && shown.recorder_key);
}

/// What the file shows up to where it is no JSON any more.
Shown look_into(const std::string& path) {
  Shown shown;
  try {
    for_each_element(path, [&](std::string_view key, json& value) { return look(key, value, shown); });
  } catch (const InputError&) {
    // Horovod's timelines end without the bracket; whoever reads other files says what is wrong with them
  }
  return shown;
}

}  // namespace

SourceKind source_kind(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return SourceKind::log;  // a pipe can be read only once
  const std::string head = head_of(path);
  if (starts_with(head, "SQLite format 3")) return SourceKind::nsys;
  reject_binary(path, head);
  const std::size_t first = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string::npos || (head[first] != '{' && head[first] != '[')) return SourceKind::log;
  const Shown shown = look_into(path);
  if (shown.horovod)
    unusable(path, "a timeline of Horovod", "which shows its own queue and no kernels of layers");
  if (shown.chakra)
    unusable(path, "a Chakra execution trace (JSON)",
             "which holds operators without the times of their kernels");
  if (shown.recorder_entries && shown.recorder_key)
    unusable(path, "a dump of PyTorch's flight recorder",
             "which holds the order of collectives for finding hangs, and no times of kernels");
  if (starts_with(shown.format, kFormats))
    unusable(path, fmt::format("a {} file", core::printable(shown.format)), "which is no recording",
             "a recording of another program");
  if (shown.nodes) return SourceKind::execution_trace;
  // A damaged or empty trace is still a trace, whose reader says what is wrong.
  const bool names_events =
      head.find("\"traceEvents\"") != std::string::npos || head.find("\"ph\"") != std::string::npos;
  return shown.events || names_events ? SourceKind::kineto : SourceKind::log;
}

bool is_of_fusewise(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none) && starts_with(look_into(path).format, kFormats);
}

}  // namespace ranks
