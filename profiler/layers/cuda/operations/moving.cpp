// Layers that only move data: joining, transposing, selecting a part.

#include "profiler/layers/cuda/operations/moves.hpp"

namespace profiler::cuda {
namespace {

Sink shifted(const Pass& pass, Sink sink, std::int64_t elements) {
  sink.data = static_cast<char*>(sink.data) + byte_offset(pass, elements);
  return sink;
}

const void* shifted(const Pass& pass, const void* data, std::int64_t elements) {
  return static_cast<const char*>(data) + byte_offset(pass, elements);
}

/// Rows of `part` contiguous elements, `from` and `to` apart.
Move rows_of(std::int64_t rows, std::int64_t part, std::int64_t from, std::int64_t to) {
  MoveMaker maker;
  maker.add(rows, from, to);
  maker.add(part, 1, 1);
  return maker.made();
}

class ConcatOperation : public Operation {
 public:
  explicit ConcatOperation(const Pass& pass) : pass_(pass) {
    const std::size_t axis = pass.as<core::Concat>().axis;
    outer_ = pass.batch * element_count(pass.out(), 0, axis);
    whole_ = element_count(pass.out(), axis, pass.out().size());
    for (std::size_t i = 0; i < pass.inputs.size(); ++i)
      parts_.push_back(element_count(pass.in(i), axis, pass.in(i).size()));
  }
  void forward() override {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts_.size(); offset += parts_[i++])
      pass_.kernels().move(pass_.type(), rows_of(outer_, parts_[i], parts_[i], whole_), pass_.inputs[i],
                           shifted(pass_, Sink{pass_.output, false}, offset));
  }
  void backward() override {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts_.size(); offset += parts_[i++])
      if (pass_.input_gradients[i].data != nullptr)
        pass_.kernels().move(pass_.type(), rows_of(outer_, parts_[i], whole_, parts_[i]),
                             shifted(pass_, pass_.output_gradient, offset), pass_.input_gradients[i]);
  }

 private:
  const Pass& pass_;
  std::int64_t outer_ = 0;
  std::int64_t whole_ = 0;
  std::vector<std::int64_t> parts_;
};

class TransposeOperation : public Operation {
 public:
  explicit TransposeOperation(const Pass& pass) : pass_(pass) {
    const core::Shape& in = pass.in();
    const core::Shape& out = pass.out();
    const std::vector<std::size_t>& axes = pass.as<core::Transpose>().axes;
    if (axes.size() >= static_cast<std::size_t>(kMaxDimensions))
      throw core::InputError(fmt::format("{}: expected at most {} dimensions with --backend cuda, got {}",
                                         pass.device->at(), kMaxDimensions - 1, axes.size()));
    const std::int64_t sample = core::element_count(out);
    MoveMaker there;
    MoveMaker back;
    there.add(pass.batch, sample, sample);
    back.add(pass.batch, sample, sample);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::int64_t in_stride = element_count(in, axes[i] + 1, in.size());
      const std::int64_t out_stride = element_count(out, i + 1, out.size());
      there.add(out[i], in_stride, out_stride);
      back.add(out[i], out_stride, in_stride);
    }
    there_ = there.made();
    back_ = back.made();
  }
  void forward() override {
    pass_.kernels().move(pass_.type(), there_, pass_.inputs[0], {pass_.output, false});
  }
  void backward() override {
    if (const Sink& to = pass_.input_gradients[0]; to.data != nullptr)
      pass_.kernels().move(pass_.type(), back_, pass_.output_gradient, to);
  }

 private:
  const Pass& pass_;
  Move there_;
  Move back_;
};

class SelectOperation : public Operation {
 public:
  explicit SelectOperation(const Pass& pass)
      : pass_(pass),
        part_(core::element_count(pass.out())),
        whole_(core::element_count(pass.in())),
        offset_(pass.as<core::Select>().index * part_) {}
  void forward() override {
    pass_.kernels().move(pass_.type(), rows_of(pass_.batch, part_, whole_, part_),
                         shifted(pass_, pass_.inputs[0], offset_), {pass_.output, false});
  }
  void backward() override {
    const Sink& to = pass_.input_gradients[0];
    if (to.data == nullptr) return;
    if (!to.add)
      pass_.device->runtime().zero(to.data, static_cast<std::size_t>(byte_offset(pass_, pass_.in_count())));
    pass_.kernels().move(pass_.type(), rows_of(pass_.batch, part_, part_, whole_), pass_.output_gradient,
                         shifted(pass_, to, offset_));
  }

 private:
  const Pass& pass_;
  std::int64_t part_;
  std::int64_t whole_;
  std::int64_t offset_;
};

}  // namespace

std::unique_ptr<Operation> concat(const Pass& pass) { return std::make_unique<ConcatOperation>(pass); }
std::unique_ptr<Operation> transpose(const Pass& pass) { return std::make_unique<TransposeOperation>(pass); }
std::unique_ptr<Operation> select(const Pass& pass) { return std::make_unique<SelectOperation>(pass); }

}  // namespace profiler::cuda
