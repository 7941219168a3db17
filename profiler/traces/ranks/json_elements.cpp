#include "profiler/traces/ranks/json_elements.hpp"

#include <algorithm>
#include <istream>
#include <vector>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "profiler/traces/kineto/gzip_stream.hpp"

namespace ranks {
namespace {

using core::InputError;
using nlohmann::json;

/// Builds the elements one after another. Depth 1 is the document, depth 2 an array in it whose elements are
/// taken one by one; containers below are parts of an element.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(const std::string& path, kineto::GzipStream& stream, const TakeElement& take)
      : path_(path), stream_(stream), take_(take) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // A time in microseconds with three decimals is more precise as text than as a double.
    return keeps_text_ ? scalar(text) : scalar(value);
  }
  bool string(string_t& value) override {
    count_bytes(value);
    return scalar(std::move(value));
  }
  bool binary(binary_t& /*value*/) override { return true; }

  bool start_object(std::size_t /*size*/) override {
    if (open_.empty() && depth_ == 0) return enter(false);
    return begin(json::object());
  }
  bool start_array(std::size_t /*size*/) override {
    if (open_.empty() && (depth_ == 0 || (depth_ == 1 && !document_is_array_))) return enter(depth_ == 0);
    return begin(json::array());
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t& value) override {
    stream_.end_token();
    if (open_.empty()) {
      top_key_ = value;
    } else {
      count_bytes(value);
      key_ = value;
    }
    keeps_text_ = !open_.empty() && (value == "ts" || value == "dur");
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& token,
                   const nlohmann::detail::exception& /*error*/) override {
    if (stream_.at_end()) refuse("JSON", "the end of the file");
    throw InputError(fmt::format("{}:{}:{}: expected JSON, got '{}'", core::one_line(path_), stream_.line(),
                                 std::max<std::int64_t>(1, stream_.column() - 1), core::printable(token)));
  }

  bool is_document() const { return entered_; }

 private:
  static constexpr std::size_t kMaxValues = 1'000'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;
  static constexpr std::size_t kMaxDepth = 100;

  bool enter(bool is_array) {
    stream_.end_token();
    if (depth_ == 0) document_is_array_ = is_array;
    entered_ = true;
    ++depth_;
    return true;
  }

  bool begin(json container) {
    stream_.end_token();
    if (open_.size() >= kMaxDepth) refuse(fmt::format("JSON nested at most {} deep", kMaxDepth), "more");
    open_.push_back(add(std::move(container)));
    return true;
  }

  bool end() {
    stream_.end_token();
    if (open_.empty()) {
      --depth_;
      return true;
    }
    open_.pop_back();
    return !open_.empty() || deliver();
  }

  template <typename Value>
  bool scalar(Value value) {
    stream_.end_token();
    const bool is_whole = open_.empty();
    (void)add(json(std::move(value)));
    keeps_text_ = false;
    return !is_whole || deliver();
  }

  json* add(json value) {
    if (++values_ > kMaxValues) refuse(fmt::format("elements of at most {} values", kMaxValues), "more");
    if (open_.empty()) {
      element_ = std::move(value);
      return &element_;
    }
    json& into = *open_.back();
    if (into.is_array()) return &into.get_ref<json::array_t&>().emplace_back(std::move(value));
    json& slot = into[key_];
    slot = std::move(value);
    return &slot;
  }

  void count_bytes(const std::string& text) {
    if ((bytes_ += text.size()) > kMaxBytes)
      refuse(fmt::format("elements with at most {} MiB of text", kMaxBytes >> 20U), "more");
  }

  bool deliver() {
    values_ = bytes_ = 0;
    return take_(document_is_array_ ? std::string_view() : std::string_view(top_key_), element_);
  }

  [[noreturn]] void refuse(std::string_view what, std::string_view got) const {
    throw InputError(
        fmt::format("{}:{}: expected {}, got {}", core::one_line(path_), stream_.line(), what, got));
  }

  const std::string& path_;
  kineto::GzipStream& stream_;
  const TakeElement& take_;
  json element_;
  std::vector<json*> open_;
  std::string top_key_;
  std::string key_;
  std::size_t values_ = 0;
  std::size_t bytes_ = 0;  // of texts and keys
  int depth_ = 0;
  bool document_is_array_ = false;
  bool keeps_text_ = false;
  bool entered_ = false;
};

}  // namespace

void for_each_element(const std::string& path, const TakeElement& take) {
  kineto::GzipStream buffer(path);
  std::istream stream(&buffer);
  stream.exceptions(std::ios::badbit);  // otherwise a damaged archive would look like its end
  Builder builder(path, buffer, take);
  nlohmann::json::sax_parse(stream, &builder);
  if (!builder.is_document())
    throw InputError(
        fmt::format("{}: /: expected a JSON object or array, got neither", core::one_line(path)));
}

}  // namespace ranks
