// A value in a JSON document with its location: reads checked values and reports file and JSON Pointer on
// errors.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/printable.hpp"

namespace core {

/// Invalid values throw InputError: `FILE: /pointer: expected X, got Y`.
class Field {
 public:
  /// Throws InputError if the file cannot be read, is not JSON (`FILE:LINE:COLUMN: ...`), has a duplicate key
  /// in an object, is nested deeper than 100, or has more than kMaxJsonValues values.
  static Field load(const std::filesystem::path& file);
  /// `source` replaces the file name in messages; relative paths start at its folder.
  static Field parse(std::string_view text, std::string source);

  bool is_object() const;
  bool is_array() const;
  bool is_text() const;
  bool is_number() const;

  bool has(std::string_view key) const;
  /// Returns the value of a required key.
  Field at(std::string_view key) const;
  std::optional<Field> find(std::string_view key) const;
  /// Returns the elements of an array.
  std::vector<Field> items() const;
  std::vector<Field> non_empty_items() const;

  double number(double min, double max) const;
  /// Reads an integer; 1e6 counts as one.
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  bool boolean() const;
  std::string text() const;
  /// Reads a string of at least one character.
  std::string name() const;
  std::string one_of(std::span<const std::string_view> choices) const;
  std::string one_of(std::initializer_list<std::string_view> choices) const {
    return one_of(std::span(choices.begin(), choices.size()));
  }

  /// Returns a short description: the strings and numbers inside, without keys, in key order, and the keys of
  /// booleans.
  std::string words() const;

  /// Rejects every key of this object that is not listed, and suggests the most similar one.
  void allow_only(std::span<const std::string_view> keys) const;
  void allow_only(std::initializer_list<std::string_view> keys) const {
    allow_only(std::span(keys.begin(), keys.size()));
  }
  /// Rejects a file without `"format": format, "version": 1`.
  void check_format(std::string_view format) const;

  /// Returns this object itself or, if the value is a path, the file that it names (relative to this one).
  Field follow() const;
  /// Returns the path in this value, relative to the folder of this file.
  std::filesystem::path path() const;

  const std::string& source() const;
  std::string pointer() const { return pointer_.empty() ? "/" : pointer_; }

  /// Throws `SOURCE: /pointer: expected {what}, got {this value}`.
  [[noreturn]] void expected(std::string_view what) const;
  /// Throws `SOURCE: /pointer: expected {what}, got {got}`.
  [[noreturn]] void expected(std::string_view what, std::string_view got) const;

 private:
  struct Document;
  static Field parse(std::string_view text, const std::filesystem::path& file, std::string source);
  Field(std::shared_ptr<const Document> document, const nlohmann::json& value, std::string pointer);
  Field child(const nlohmann::json& value, std::string_view token) const;

  std::shared_ptr<const Document> document_;
  const nlohmann::json* value_;
  std::string pointer_;
};

/// Observes which keys readers request from fields. Tests compare them with the schemas.
class FieldObserver {
 public:
  FieldObserver() = default;
  FieldObserver(const FieldObserver&) = delete;
  FieldObserver& operator=(const FieldObserver&) = delete;
  virtual ~FieldObserver() = default;

  virtual void on_allowed_keys(const Field& object, std::span<const std::string_view> keys) = 0;
  virtual void on_key(const Field& object, std::string_view key) = 0;
  virtual void on_choices(const Field& text, std::span<const std::string_view> choices) = 0;
};

/// Sets the observer of the fields that this thread reads; nullptr: none.
void observe_fields(FieldObserver* observer);

/// Returns ", did you mean 'x'?" for the candidate most similar to `word`, or nothing if none is similar.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace core
