// The functions of cuDNN and cuBLASLt that are used, loaded with dlopen(). Their types come from the headers,
// so that they cannot differ; tests provide their own functions.

#pragma once

#include <string>

#include <cublasLt.h>
#include <cudnn.h>

#define FUSEWISE_CUDNN(X)                          \
  X(cudnnGetVersion)                               \
  X(cudnnGetErrorString)                           \
  X(cudnnCreate)                                   \
  X(cudnnDestroy)                                  \
  X(cudnnSetStream)                                \
  X(cudnnCreateTensorDescriptor)                   \
  X(cudnnDestroyTensorDescriptor)                  \
  X(cudnnSetTensor4dDescriptor)                    \
  X(cudnnSetTensorNdDescriptor)                    \
  X(cudnnCreateFilterDescriptor)                   \
  X(cudnnDestroyFilterDescriptor)                  \
  X(cudnnSetFilter4dDescriptor)                    \
  X(cudnnCreateConvolutionDescriptor)              \
  X(cudnnDestroyConvolutionDescriptor)             \
  X(cudnnSetConvolution2dDescriptor)               \
  X(cudnnSetConvolutionGroupCount)                 \
  X(cudnnSetConvolutionMathType)                   \
  X(cudnnFindConvolutionForwardAlgorithmEx)        \
  X(cudnnFindConvolutionBackwardDataAlgorithmEx)   \
  X(cudnnFindConvolutionBackwardFilterAlgorithmEx) \
  X(cudnnConvolutionForward)                       \
  X(cudnnConvolutionBackwardData)                  \
  X(cudnnConvolutionBackwardFilter)                \
  X(cudnnConvolutionBackwardBias)                  \
  X(cudnnAddTensor)                                \
  X(cudnnCreatePoolingDescriptor)                  \
  X(cudnnDestroyPoolingDescriptor)                 \
  X(cudnnSetPooling2dDescriptor)                   \
  X(cudnnPoolingForward)                           \
  X(cudnnPoolingBackward)                          \
  X(cudnnCreateActivationDescriptor)               \
  X(cudnnDestroyActivationDescriptor)              \
  X(cudnnSetActivationDescriptor)                  \
  X(cudnnActivationForward)                        \
  X(cudnnActivationBackward)                       \
  X(cudnnBatchNormalizationForwardTraining)        \
  X(cudnnBatchNormalizationBackward)               \
  X(cudnnCreateLRNDescriptor)                      \
  X(cudnnDestroyLRNDescriptor)                     \
  X(cudnnSetLRNDescriptor)                         \
  X(cudnnLRNCrossChannelForward)                   \
  X(cudnnLRNCrossChannelBackward)                  \
  X(cudnnSoftmaxForward)                           \
  X(cudnnCreateDropoutDescriptor)                  \
  X(cudnnDestroyDropoutDescriptor)                 \
  X(cudnnSetDropoutDescriptor)                     \
  X(cudnnCreateRNNDescriptor)                      \
  X(cudnnDestroyRNNDescriptor)                     \
  X(cudnnSetRNNDescriptor_v8)                      \
  X(cudnnCreateRNNDataDescriptor)                  \
  X(cudnnDestroyRNNDataDescriptor)                 \
  X(cudnnSetRNNDataDescriptor)                     \
  X(cudnnGetRNNTempSpaceSizes)                     \
  X(cudnnGetRNNWeightSpaceSize)                    \
  X(cudnnGetRNNWeightParams)                       \
  X(cudnnRNNForward)                               \
  X(cudnnRNNBackwardData_v8)                       \
  X(cudnnRNNBackwardWeights_v8)

#define FUSEWISE_CUBLASLT(X)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusString)              \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmul)

namespace profiler::cuda {

#define FUSEWISE_ENTRY(name) decltype(&::name) name = nullptr;
struct Libraries {
  FUSEWISE_CUDNN(FUSEWISE_ENTRY)
  FUSEWISE_CUBLASLT(FUSEWISE_ENTRY)
};
#undef FUSEWISE_ENTRY

/// Loaded once per process, from where cuda_runtime::SharedLibrary searches. Throws EnvironmentError, which
/// says what was not found.
const Libraries& libraries();

/// "cuDNN 9.19.0, cuBLASLt 13.1.0"
std::string versions(const Libraries& libraries);

}  // namespace profiler::cuda
