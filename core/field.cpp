#include "core/field.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/file_format.hpp"
#include "core/files.hpp"
#include "core/ignoring_case.hpp"
#include "core/limits.hpp"

namespace core {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 100;

/// Formats a value for a message: the whole value if it is short, otherwise its kind and size.
std::string shown(const json& value) {
  const auto count = [&](std::string_view one, std::string_view many) {
    return value.size() == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}", value.size(), many);
  };
  if (value.is_array()) return "an array of " + count("item", "items");
  if (value.is_object()) return "an object with " + count("key", "keys");
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string escape_token(std::string_view token) {
  std::string out;
  for (const char c : token) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return one_line(out);
}

/// Insertions, deletions, substitutions and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_above(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string place(std::string_view text, std::string_view source, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(text.size(), offset));
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 == 0
  return fmt::format("{}:{}:{}", source, line, column);
}

/// Builds the document and rejects what nlohmann's own reader accepts: duplicate keys, and nesting that would
/// exhaust the stack of recursive code.
class Reader : public nlohmann::json_sax<json> {
 public:
  Reader(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // cannot occur in text
  bool start_object(std::size_t /*size*/) override { return open(json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name))
      throw InputError(fmt::format("{}: {}/{}: expected a key once, got it twice", source_, pointer(),
                                   escape_token(name)));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange)
      throw InputError(fmt::format("{}: expected a number that fits a double, got {}",
                                   place(text_, source_, text_.rfind(last_token, position)),
                                   printable(last_token)));
    const std::string where = place(text_, source_, position > 0 ? position - 1 : 0);
    const bool at_end = position > text_.size();
    throw InputError(fmt::format("{}: expected JSON, got {}", where,
                                 at_end ? "the end of the file" : fmt::format("'{}'", unexpected(position))));
  }

 private:
  std::string unexpected(std::size_t position) const {
    if (position == 0) return "";
    std::size_t length = 1;  // a whole UTF-8 character
    while (position - 1 + length < text_.size() &&
           (static_cast<unsigned char>(text_[position - 1 + length]) & 0xc0U) == 0x80U)
      ++length;
    const json character = std::string(text_.substr(position - 1, length));
    const std::string valid = character.dump(-1, ' ', false, json::error_handler_t::replace);
    return valid.substr(1, valid.size() - 2);
  }

  /// Returns the pointer of the innermost open value; only built for messages.
  std::string pointer() const {
    std::string out;
    for (std::size_t i = 1; i < open_.size(); ++i) {
      const json& parent = *open_[i - 1];
      if (parent.is_array()) {
        out += fmt::format("/{}", parent.size() - 1);
      } else {
        for (const auto& [name, value] : parent.items())
          if (&value == open_[i]) out += '/' + escape_token(name);
      }
    }
    return out;
  }

  json* put(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  template <typename Value>
  bool add(Value&& value) {
    put(json(std::forward<Value>(value)));
    check_size();
    return true;
  }

  bool open(json empty) {
    open_.push_back(put(std::move(empty)));
    check_size();
    if (open_.size() > kDeepest)
      throw InputError(
          fmt::format("{}: {}: expected nesting of at most {}, got more", source_, pointer(), kDeepest));
    return true;
  }

  void check_size() {
    if (++values_ > kMaxJsonValues)
      throw InputError(fmt::format("{}: {}: expected at most {} values in the file, got more", source_,
                                   open_.size() > 1 ? pointer() : "/", kMaxJsonValues));
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::string_view source_;
  json root_;
  std::vector<json*> open_;  // elements are only added to the innermost value, so these pointers stay valid
  std::string key_;
  std::size_t values_ = 0;
};

}  // namespace

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return "";
  const std::string small = in_small_letters(word);
  std::string_view best;
  std::size_t min = std::max<std::size_t>(1, std::min<std::size_t>(3, word.size() / 2)) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(small, in_small_letters(candidate));
    if (distance < min) {
      min = distance;
      best = candidate;
    }
  }
  if (best.empty() && word.size() >= 3)  // the beginning of a name, of the shortest one
    for (const std::string_view candidate : candidates)
      if (in_small_letters(candidate).starts_with(small) && (best.empty() || candidate.size() < best.size()))
        best = candidate;
  return best.empty() ? "" : fmt::format(", did you mean '{}'?", printable(best));
}

namespace {

thread_local FieldObserver* field_observer = nullptr;

}  // namespace

void observe_fields(FieldObserver* observer) { field_observer = observer; }

struct Field::Document {
  json root;
  std::string source;
  std::filesystem::path folder;  ///< base of relative paths
};

Field::Field(std::shared_ptr<const Document> document, const json& value, std::string pointer)
    : document_(std::move(document)), value_(&value), pointer_(std::move(pointer)) {}

Field Field::load(const std::filesystem::path& file) {
  const std::string source = one_line(file.string());
  std::string text;
  try {
    text = read_file(file);
  } catch (const ReadError& error) {
    throw InputError(fmt::format("{}: /: expected a file that can be read, got: {}", source, error.what()));
  }
  return parse(text, file, source);
}

Field Field::parse(std::string_view text, std::string source) {
  const std::filesystem::path file = source;
  return parse(text, file, std::move(source));
}

Field Field::parse(std::string_view text, const std::filesystem::path& file, std::string source) {
  // nlohmann's lexer takes a NUL for the end.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw InputError(fmt::format("{}: expected JSON, got a NUL character", place(text, source, nul)));
  Reader reader(text, source);
  json::sax_parse(text.begin(), text.end(), &reader);
  auto document =
      std::make_shared<const Document>(Document{reader.take(), std::move(source), file.parent_path()});
  const json& root = document->root;
  return {std::move(document), root, ""};
}

const std::string& Field::source() const { return document_->source; }

Field Field::child(const json& value, std::string_view token) const {
  return {document_, value, pointer_ + '/' + escape_token(token)};
}

bool Field::is_object() const { return value_->is_object(); }
bool Field::is_array() const { return value_->is_array(); }
bool Field::is_text() const { return value_->is_string(); }
bool Field::is_number() const { return value_->is_number(); }

bool Field::has(std::string_view key) const {
  if (field_observer != nullptr && value_->is_object()) field_observer->on_key(*this, key);
  return value_->is_object() && value_->find(key) != value_->end();
}

std::optional<Field> Field::find(std::string_view key) const {
  if (!value_->is_object()) expected("an object");
  if (field_observer != nullptr) field_observer->on_key(*this, key);
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return child(*found, key);
}

Field Field::at(std::string_view key) const {
  if (std::optional<Field> found = find(key)) return *std::move(found);
  throw InputError(
      fmt::format("{}: {}/{}: expected a value, got nothing", source(), pointer_, escape_token(key)));
}

std::vector<Field> Field::items() const {
  if (!value_->is_array()) expected("an array");
  std::vector<Field> items;
  items.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) items.push_back(child((*value_)[i], fmt::to_string(i)));
  return items;
}

std::vector<Field> Field::non_empty_items() const {
  if (!value_->is_array() || value_->empty()) expected("an array of at least 1 item");
  return items();
}

double Field::number(double min, double max) const {
  const double value = value_->is_number() ? value_->get<double>() : 0;
  if (!value_->is_number() || !(value >= min && value <= max))
    expected(fmt::format("a number from {:.15g} to {:.15g}", min, max));
  return value;
}

std::int64_t Field::integer(std::int64_t min, std::int64_t max) const {
  const std::string wanted = fmt::format("an integer from {} to {}", min, max);
  if (!value_->is_number()) expected(wanted);
  if (value_->is_number_float()) {
    const auto value = value_->get<double>();
    constexpr double kTooLarge = 0x1p63;  // INT64_MAX itself is not a double
    if (value != std::floor(value) || value < static_cast<double>(min) || value >= kTooLarge ||
        value > static_cast<double>(max))
      expected(wanted);
    return static_cast<std::int64_t>(value);
  }
  if (value_->is_number_unsigned()) {
    const auto value = value_->get<std::uint64_t>();
    if (value > static_cast<std::uint64_t>(INT64_MAX)) expected(wanted);
  }
  const auto value = value_->get<std::int64_t>();
  if (value < min || value > max) expected(wanted);
  return value;
}

bool Field::boolean() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}

std::string Field::text() const {
  if (!value_->is_string()) expected("a string");
  return value_->get<std::string>();
}

std::string Field::name() const {
  if (!value_->is_string() || value_->get_ref<const std::string&>().empty()) expected("a non-empty string");
  constexpr std::size_t kMax = 4096;  // a table is as wide as its longest name
  const std::size_t bytes = value_->get_ref<const std::string&>().size();
  if (bytes > kMax)
    expected(fmt::format("a name of at most {} bytes", kMax), fmt::format("one of {}", bytes));
  return value_->get<std::string>();
}

std::string Field::one_of(std::span<const std::string_view> choices) const {
  if (field_observer != nullptr) field_observer->on_choices(*this, choices);
  const auto wanted = [&] { return fmt::format("one of {}", fmt::join(choices, ", ")); };
  if (!value_->is_string()) expected(wanted());
  const auto& value = value_->get_ref<const std::string&>();
  if (std::ranges::find(choices, value) == choices.end())
    expected(wanted(), shown(*value_) + suggestion(value, choices));
  return value;
}

namespace {

/// Returns "between-nodes" or "no-between-nodes".
std::string said(const std::string& key, bool value) {
  std::string out = (value ? "" : "no-") + printable(key);
  std::ranges::replace(out, '_', '-');
  return out;
}

/// A key that other programs have, or other places of a file, and what stands for it where the key `context`
/// is allowed.
struct OtherKey {
  std::string_view key;
  std::string_view context;
  std::string_view instead;
};

constexpr OtherKey kOtherKeys[] = {
    {"bucket_cap_mb", "fusion", R"("fusion": {"kind": "buckets", "cap_bytes": ...})"},
    {"cap_mb", "cap_bytes", R"("cap_bytes")"},
    {"device", "profile", R"("profile": {"estimate": MODEL, "device": ...})"}};

/// What stands for a key that is not allowed, or the most similar one.
std::string instead_of(std::string_view key, std::span<const std::string_view> keys) {
  for (const OtherKey& other : kOtherKeys)
    if (key == other.key && std::ranges::find(keys, other.context) != keys.end())
      return fmt::format("; use {} instead", other.instead);
  return suggestion(key, keys);
}

}  // namespace

std::string Field::words() const {
  if (!value_->is_structured())
    return value_->is_string() ? printable(value_->get_ref<const std::string&>()) : shown(*value_);
  std::string out;
  for (const bool strings : {true, false}) {
    for (const auto& [key, value] : value_->items()) {
      if (value.is_string() != strings) continue;
      const bool is_named = value_->is_object() && value.is_boolean();
      const std::string inner = is_named ? said(key, value.get<bool>()) : child(value, key).words();
      if (!inner.empty() && !out.empty()) out += ' ';
      out += inner;
    }
  }
  return out;
}

void Field::allow_only(std::span<const std::string_view> keys) const {
  if (!value_->is_object()) expected("an object");
  if (field_observer != nullptr) field_observer->on_allowed_keys(*this, keys);
  for (const auto& [key, value] : value_->items())
    if (std::ranges::find(keys, key) == keys.end())
      child(value, key)
          .expected(fmt::format("a key among {}", fmt::join(keys, ", ")),
                    fmt::format("'{}'{}", printable(key), instead_of(key, keys)));
}

void Field::check_format(std::string_view format) const {
  if (!value_->is_object()) expected(fmt::format(R"(an object with "format": "{}")", format));
  if (value_->find("format") == value_->end()) {
    const auto has_key = [&](std::string_view key) { return value_->find(key) != value_->end(); };
    throw InputError(
        fmt::format("{}: {}/format: {}", source(), pointer_, no_format(std::span(&format, 1), has_key)));
  }
  at("format").one_of({format});
  const Field version = at("version");
  if (version.value_->is_number() && version.value_->get<double>() == 1) return;
  version.expected("1, the only version this program reads");
}

std::filesystem::path Field::path() const {
  const std::string name = text();
  if (name.find('\0') != std::string::npos) expected("a path without a NUL character");
  return (document_->folder / name).lexically_normal();
}

Field Field::follow() const {
  if (value_->is_object()) return *this;
  if (!value_->is_string()) expected("an object or the path of a file");
  const std::filesystem::path file = path();
  std::string text;
  try {
    text = read_file(file);
  } catch (const ReadError& error) {
    expected("the path of a file that can be read", fmt::format("{}: {}", shown(*value_), error.what()));
  }
  return parse(text, file, one_line(file.string()));
}

void Field::expected(std::string_view what) const { expected(what, shown(*value_)); }

void Field::expected(std::string_view what, std::string_view got) const {
  // `what` may list names of the file, such as the parameters of a block.
  throw InputError(one_line(fmt::format("{}: {}: expected {}, got {}", source(), pointer(), what, got)));
}

}  // namespace core
