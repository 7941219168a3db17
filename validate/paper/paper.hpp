// A paper as data: its published results, the inputs from which we compute them, and how ours are judged.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/field.hpp"
#include "validate/paper/patch.hpp"

namespace validate {

/// An input on which our results depend.
struct Input {
  std::string what;
  std::string value;
  std::string unit;
  std::string kind;  ///< published, derived or estimated
  std::string from;
};

/// A value chosen so that a figure is reproduced.
struct Parameter {
  std::string name;
  std::string value;
  std::string unit;
  std::string why;
  std::vector<std::string> calibrated_on;  ///< names of figures
};

/// A published result. Exactly one field is set, or none if a figure is only shown.
struct Published {
  std::optional<double> value;
  std::optional<double> min;  ///< of a range, which may have only one end
  std::optional<double> max;
  std::optional<std::pair<double, double>> between;  ///< a crossing lies between these two
  std::vector<std::string> order;                    ///< the best first
  std::optional<bool> holds;
  std::string text;  ///< as it is displayed
};

/// A mean over the relative errors of several figures.
struct Score {
  std::string name;
  std::string what;
  std::optional<double> max_mean_error;  ///< none: the mean and its figures are only shown
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
  std::optional<double> within;  ///< tolerance, for the judges that take one
  std::string score;             ///< for the judge `scored`, and for `shown` if its score has no bound
  bool max_is_best = false;      ///< for the judge `order`
  std::string reason;            ///< why it is not reproduced; empty if it is
  core::Field quantity;          ///< how our value is computed: see quantities.hpp
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
