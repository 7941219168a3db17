// A paper as data: what it publishes, from which inputs we get the same numbers, and how ours are judged.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/field.hpp"
#include "validate/paper/patch.hpp"

namespace validate {

/// Something that our numbers rest on.
struct Input {
  std::string what;
  std::string value;
  std::string unit;
  std::string kind;  ///< published, derived or estimated
  std::string from;
};

/// Chosen so that one figure comes out.
struct Parameter {
  std::string name;
  std::string value;
  std::string unit;
  std::string why;
  std::vector<std::string> calibrated_on;  ///< names of figures
};

/// What the paper says. One of these is there, or none where a figure is only shown.
struct Published {
  std::optional<double> value;
  std::optional<double> min;  ///< of a range, which may have one end only
  std::optional<double> max;
  std::optional<std::pair<double, double>> between;  ///< a crossing lies between these two
  std::vector<std::string> order;                    ///< the best first
  std::optional<bool> holds;
  std::string text;  ///< as it is shown
};

/// A mean over the relative errors of several figures.
struct Score {
  std::string name;
  std::string what;
  std::optional<double> max_mean_error;  ///< none: the mean is only shown, and so are its figures
};

struct Judge;

struct Figure {
  std::string name;
  std::string where;  ///< "Table II", "Figure 10"
  std::string what;
  std::string read;  ///< text, table or graph
  Published published;
  std::string unit;
  int decimals = 2;
  const Judge* judge = nullptr;
  std::optional<double> within;  ///< of judges that are told how near is near enough
  std::string score;             ///< of the judge `scored`, and of `shown` where its score has no bound
  bool max_is_best = false;      ///< of the judge `order`
  std::string reason;            ///< why it is not reproduced, if it is not
  core::Field quantity;          ///< how ours is got: see quantities.hpp
};

struct Paper {
  std::string name;
  std::string title;
  std::string source;
  std::vector<Input> inputs;
  std::vector<Parameter> parameters;
  std::vector<NamedScenario> scenarios;
  std::vector<Score> scores;
  std::vector<Figure> figures;
};

}  // namespace validate
