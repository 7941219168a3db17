#include "planner/choose/fusion.hpp"

#include <vector>

#include "planner/choose/fusion/keys.hpp"
#include "planner/job/registry.hpp"

namespace planner {

// To add a kind of fusion: write fusion/<name>.cpp and list it here.
FusionKind no_fusion();
FusionKind all_in_one();
FusionKind mg_wfbp_fusion();
FusionKind optimal_fusion();
FusionKind robust_fusion();
FusionKind cupcake_fusion();
FusionKind buckets();
FusionKind threshold();
FusionKind modules();
FusionKind nearby_layers();
FusionKind blocks();
FusionKind equal_groups();
FusionKind partitions();
FusionKind bayesian();
FusionKind random_caps();
FusionKind grid_of_caps();
FusionKind sweep();
FusionKind autotune();
FusionKind planned();

std::span<const FusionKind> fusion_kinds() {
  static const std::vector<FusionKind> all = {
      no_fusion(),      all_in_one(),   mg_wfbp_fusion(), optimal_fusion(), robust_fusion(),
      cupcake_fusion(), buckets(),      threshold(),      modules(),        nearby_layers(),
      blocks(),         equal_groups(), partitions(),     bayesian(),       random_caps(),
      grid_of_caps(),   sweep(),        autotune(),       planned(),
  };
  return all;
}

Fusion read_fusion(const core::Field& field) {
  const core::Field named = field.is_object() ? field.at("kind") : field;
  const std::string kind = named.one_of(names(fusion_kinds()));
  const FusionKind& found = entry(fusion_kinds(), kind);
  return {.kind = kind,
          .fuse = found.read(field),
          .choices = found.choices == nullptr ? std::vector<TransferChoice>{} : found.choices(field),
          .searches = found.searches};
}

std::int64_t fusion_integer(const core::Field& field, std::string_view key, std::int64_t min,
                            std::int64_t max, std::int64_t otherwise) {
  const std::optional<core::Field> found = fusion_key(field, key);
  return found ? found->integer(min, max) : otherwise;
}

void allow_fusion_keys(const core::Field& field, std::initializer_list<std::string_view> keys) {
  if (field.is_object()) field.allow_only(keys);
}

}  // namespace planner
