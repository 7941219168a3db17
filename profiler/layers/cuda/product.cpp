#include "profiler/layers/cuda/product.hpp"

namespace profiler::cuda {
namespace {

constexpr float kOne = 1;
constexpr float kZero = 0;

cublasComputeType_t compute_type(const Arithmetic& arithmetic) {
  return arithmetic.type == Type::float32 && arithmetic.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                             : CUBLAS_COMPUTE_32F;
}

}  // namespace

Product::Product(Device& device, const ProductShape& shape) : device_(&device), shape_(shape) {
  cublasLtMatmulDesc_t operation = nullptr;
  FUSEWISE_CALL(device, cublasLtMatmulDescCreate, &operation, compute_type(device.arithmetic()), CUDA_R_32F);
  operation_ = {operation, device.libraries().cublasLtMatmulDescDestroy};
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    FUSEWISE_CALL(device, cublasLtMatmulDescSetAttribute, operation, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, shape.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, shape.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (shape.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, shape.bias);
  }
  first_ = layout(shape.b_transposed, shape.inner, shape.columns, shape.b_apart);
  second_ = layout(shape.a_transposed, shape.rows, shape.inner, shape.a_apart);
  out_ = layout(false, shape.rows, shape.columns, shape.c_apart);
  choose();
}

Blas<cublasLtMatrixLayout_t> Product::layout(bool transposed, std::int64_t rows, std::int64_t columns,
                                             std::int64_t apart) {
  if (transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t made = nullptr;
  FUSEWISE_CALL(*device_, cublasLtMatrixLayoutCreate, &made, device_->blas_type(),
                static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows), columns);
  Blas<cublasLtMatrixLayout_t> out(made, device_->libraries().cublasLtMatrixLayoutDestroy);
  if (shape_.batch > 1) {
    const auto count = static_cast<std::int32_t>(shape_.batch);
    FUSEWISE_CALL(*device_, cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                  &count, sizeof(count));
    FUSEWISE_CALL(*device_, cublasLtMatrixLayoutSetAttribute, made,
                  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof(apart));
  }
  return out;
}

/// Every matrix is aligned as the device prefers, which cuBLASLt assumes by default.
void Product::choose() {
  cublasLtMatmulPreference_t made = nullptr;
  FUSEWISE_CALL(*device_, cublasLtMatmulPreferenceCreate, &made);
  const Blas<cublasLtMatmulPreference_t> preference(made,
                                                    device_->libraries().cublasLtMatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    FUSEWISE_CALL(*device_, cublasLtMatmulPreferenceSetAttribute, made, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  FUSEWISE_CALL(*device_, cublasLtMatmulAlgoGetHeuristic, device_->blas(), operation_.get(), first_.get(),
                second_.get(), out_.get(), out_.get(), made, 1, &found, &count);
  device_->check(count > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  algorithm_ = found.algo;
}

void Product::run(const void* a, const void* b, void* c) {
  FUSEWISE_CALL(*device_, cublasLtMatmul, device_->blas(), operation_.get(), &kOne, b, first_.get(), a,
                second_.get(), shape_.add ? &kOne : &kZero, c, out_.get(), c, out_.get(), &algorithm_,
                device_->workspace(), kWorkspaceBytes, device_->stream());
}

}  // namespace profiler::cuda
