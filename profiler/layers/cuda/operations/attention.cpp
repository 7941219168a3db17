// attention: softmax(q k' / sqrt(features of a head)) v. Heads are separated first, so that all heads of all
// samples are one product of cuBLASLt; own kernels run between its products.

#include <algorithm>
#include <array>
#include <optional>

#include "profiler/layers/attention.hpp"
#include "profiler/layers/cuda/operations/drops.hpp"
#include "profiler/layers/cuda/operations/moves.hpp"
#include "profiler/layers/cuda/product.hpp"

namespace profiler::cuda {
namespace {

/// Offsets of consecutive buffers, each aligned as the device prefers.
class Pieces {
 public:
  explicit Pieces(std::size_t element_bytes) : element_bytes_(static_cast<double>(element_bytes)) {}

  /// Returns the offset of its first byte.
  double add(double elements) {
    constexpr double kAlignment = 256;
    const double begin = bytes_;
    bytes_ += std::ceil(elements * element_bytes_ / kAlignment) * kAlignment;
    return begin;
  }
  double bytes() const { return bytes_; }

 private:
  double element_bytes_;
  double bytes_ = 0;
};

enum Role : std::uint8_t { query, key, value };

/// The offsets of all buffers, in bytes from the begin of the stored data or of the scratch.
struct Plan {
  std::array<double, 3> apart{};  ///< q, k and v, with heads separated
  double weights = 0;
  double kept = 0;
  double slopes = 0;   ///< of the scores
  double dropped = 0;  ///< the weights as they are multiplied with v
  double given = 0;    ///< of the output, or its gradient, with heads separated
  double part = 0;     ///< a gradient of q, k or v, with heads separated
  double scratch = 0;
};

Plan plan_of(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  const AttentionSizes s = attention_sizes(work);
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double pieces = batch * number(s.heads);
  const double scores = pieces * number(s.queries) * number(s.keys);
  const double of_queries = pieces * number(s.queries) * number(s.features);
  const double of_keys = batch * number(s.key_value_heads) * number(s.keys) * number(s.features);
  Plan out;
  Pieces kept(arithmetic.bytes());
  out.apart = {kept.add(of_queries), kept.add(of_keys), kept.add(of_keys)};
  out.weights = kept.add(scores);
  out.kept = kept.bytes();
  Pieces scratch(arithmetic.bytes());
  out.slopes = scratch.add(scores);
  out.dropped = scratch.add(s.dropout > 0 ? scores : 0);
  out.given = scratch.add(of_queries);
  out.part = scratch.add(std::max(of_queries, of_keys));
  out.scratch = scratch.bytes();
  return out;
}

void* at(void* memory, double bytes) { return static_cast<char*>(memory) + static_cast<std::size_t>(bytes); }

class AttentionOperation : public Operation {
 public:
  explicit AttentionOperation(const Pass& pass)
      : pass_(pass),
        sizes_(attention_sizes(*pass.work)),
        plan_(plan_of(*pass.work, static_cast<double>(pass.batch), pass.device->arithmetic())) {
    const std::int64_t pieces = pass.batch * sizes_.heads;
    scores_ = {pieces * sizes_.queries, sizes_.queries, sizes_.keys, sizes_.scale(), sizes_.is_causal};
    if (sizes_.dropout > 0) drop_ = drop_of(pass.seed, sizes_.dropout);
    make_products(pass.batch * sizes_.key_value_heads);
  }

  void forward() override {
    for (const Role role : {query, key, value}) split(role);
    scores_product_->run(apart(query), apart(key), weights());
    pass_.kernels().softmax(pass_.type(), scores_, weights());
    mix_->run(dropped(), apart(value), given());
    merge(given(), query, {pass_.output, false}, 0, sizes_.row());
  }

  void backward() override {
    MoveMaker maker;
    split_moves(maker, query, sizes_.row());
    pass_.kernels().move(pass_.type(), maker.made(), pass_.output_gradient, {given(), false});
    if (wants(value)) {
      value_->run(dropped(), given(), part());
      give(value);
    }
    slopes_->run(given(), apart(value), slopes());
    pass_.kernels().softmax_back(pass_.type(), scores_, drop_, weights(), slopes());
    if (wants(query)) {
      query_->run(slopes(), apart(key), part());
      give(query);
    }
    if (wants(key)) {
      key_->run(slopes(), apart(query), part());
      give(key);
    }
  }

 private:
  void make_products(std::int64_t pieces) {
    const std::int64_t q = sizes_.sharing() * sizes_.queries;
    const std::int64_t k = sizes_.keys;
    const std::int64_t f = sizes_.features;
    const auto batched = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner, bool a_transposed,
                             bool b_transposed) {
      return ProductShape{.rows = rows,
                          .columns = columns,
                          .inner = inner,
                          .a_transposed = a_transposed,
                          .b_transposed = b_transposed,
                          .batch = pieces,
                          .a_apart = rows * inner,
                          .b_apart = inner * columns,
                          .c_apart = rows * columns};
    };
    Device& device = *pass_.device;
    scores_product_.emplace(device, batched(q, k, f, false, true));
    mix_.emplace(device, batched(q, f, k, false, false));
    value_.emplace(device, batched(k, f, q, true, false));
    slopes_.emplace(device, batched(q, k, f, false, true));
    query_.emplace(device, batched(q, f, k, false, false));
    key_.emplace(device, batched(k, f, q, true, false));
  }

  std::size_t input(Role role) const { return sizes_.is_packed ? 0 : static_cast<std::size_t>(role); }
  std::int64_t length(Role role) const { return role == query ? sizes_.queries : sizes_.keys; }
  std::int64_t heads(Role role) const { return role == query ? sizes_.heads : sizes_.key_value_heads; }
  std::int64_t stride(Role role) const {
    return sizes_.is_packed ? 3 * sizes_.row() : heads(role) * sizes_.features;
  }
  std::int64_t begin(Role role) const {
    return sizes_.is_packed ? static_cast<std::int64_t>(role) * sizes_.row() : 0;
  }
  bool wants(Role role) const { return pass_.input_gradients[input(role)].data != nullptr; }

  /// From [sample, position, head, feature] to [sample, head, position, feature].
  void split_moves(MoveMaker& maker, Role role, std::int64_t stride) const {
    const std::int64_t f = sizes_.features;
    maker.add(pass_.batch, length(role) * stride, heads(role) * length(role) * f);
    maker.add(heads(role), f, length(role) * f);
    maker.add(length(role), stride, f);
    maker.add(f, 1, 1);
  }
  void split(Role role) const {
    MoveMaker maker;
    split_moves(maker, role, stride(role));
    const auto* from = static_cast<const char*>(pass_.inputs[input(role)]) + byte_offset(pass_, begin(role));
    pass_.kernels().move(pass_.type(), maker.made(), from, {apart(role), false});
  }
  void merge(const void* from, Role role, Sink to, std::int64_t begin, std::int64_t stride) const {
    const std::int64_t f = sizes_.features;
    MoveMaker maker;
    maker.add(pass_.batch, heads(role) * length(role) * f, length(role) * stride);
    maker.add(heads(role), length(role) * f, f);
    maker.add(length(role), f, stride);
    maker.add(f, 1, 1);
    to.data = static_cast<char*>(to.data) + byte_offset(pass_, begin);
    pass_.kernels().move(pass_.type(), maker.made(), from, to);
  }
  void give(Role role) const {
    merge(part(), role, pass_.input_gradients[input(role)], begin(role), stride(role));
  }

  void* apart(Role role) const { return at(pass_.kept, plan_.apart[role]); }
  void* weights() const { return at(pass_.kept, plan_.weights); }
  void* slopes() const { return at(pass_.scratch, plan_.slopes); }
  void* given() const { return at(pass_.scratch, plan_.given); }
  void* part() const { return at(pass_.scratch, plan_.part); }
  const void* dropped() const {
    if (drop_.below == 0) return weights();
    void* const out = at(pass_.scratch, plan_.dropped);
    pass_.kernels().drop(pass_.type(), drop_, weights(), {out, false}, scores_.rows * scores_.keys);
    return out;
  }

  const Pass& pass_;
  AttentionSizes sizes_;
  Plan plan_;
  Scores scores_;
  Drop drop_;
  std::optional<Product> scores_product_;
  std::optional<Product> mix_;
  std::optional<Product> value_;
  std::optional<Product> slopes_;
  std::optional<Product> query_;
  std::optional<Product> key_;
};

}  // namespace

std::unique_ptr<Operation> attention(const Pass& pass) { return std::make_unique<AttentionOperation>(pass); }

Room attention_room(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  const Plan plan = plan_of(work, batch, arithmetic);
  return {.kept = plan.kept, .scratch = plan.scratch};
}

}  // namespace profiler::cuda
