#include "profiler/layers/cuda/device.hpp"

#include <fmt/format.h>

namespace profiler::cuda {

Device::Device(Runtime& runtime, const Libraries& libraries, Kernels& kernels, const Arithmetic& arithmetic)
    : runtime_(runtime), libraries_(libraries), kernels_(kernels), arithmetic_(arithmetic) {
  dnn_ = make(libraries.cudnnCreate, libraries.cudnnDestroy, "cudnnCreate");
  FUSEWISE_CALL(*this, cudnnSetStream, dnn(), stream());
  cublasLtHandle_t blas = nullptr;
  FUSEWISE_CALL(*this, cublasLtCreate, &blas);
  blas_ = {blas, libraries.cublasLtDestroy};
  workspace_ = Memory(runtime, kWorkspaceBytes);
}

cudnnDataType_t Device::dnn_type() const {
  switch (arithmetic_.type) {
    case Type::float32: return CUDNN_DATA_FLOAT;
    case Type::float16: return CUDNN_DATA_HALF;
    case Type::bfloat16: break;
  }
  return CUDNN_DATA_BFLOAT16;
}

cudaDataType_t Device::blas_type() const {
  switch (arithmetic_.type) {
    case Type::float32: return CUDA_R_32F;
    case Type::float16: return CUDA_R_16F;
    case Type::bfloat16: break;
  }
  return CUDA_R_16BF;
}

cudnnMathType_t Device::dnn_math() const {
  if (arithmetic_.type != Type::float32) return CUDNN_TENSOR_OP_MATH;
  return arithmetic_.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

void Device::check(cudnnStatus_t status, const char* function) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw core::EnvironmentError(fmt::format("{}{}{}: {}", layer_, layer_.empty() ? "" : ": ", function,
                                           libraries_.cudnnGetErrorString(status)));
}

void Device::check(cublasStatus_t status, const char* function) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw core::EnvironmentError(fmt::format("{}{}{}: {}", layer_, layer_.empty() ? "" : ": ", function,
                                           libraries_.cublasLtGetStatusString(status)));
}

}  // namespace profiler::cuda
