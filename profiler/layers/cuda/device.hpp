// A GPU with its libraries loaded, on which operations run; reports failed calls.

#pragma once

#include <memory>
#include <string>
#include <utility>

#include "profiler/layers/cuda/kernels.hpp"
#include "profiler/layers/cuda/libraries.hpp"
#include "profiler/layers/cuda/runtime.hpp"

/// Calls a library function; on failure throws EnvironmentError "LAYER: FUNCTION: message of the library".
#define FUSEWISE_CALL(device, function, ...) \
  (device).check((device).libraries().function(__VA_ARGS__), #function)

namespace profiler::cuda {

/// Working memory for the libraries' algorithms; those that need more are not chosen. cuDNN reorders images
/// and results there for tensor cores: of 64 samples, VGG-16's second layer takes 0.8 GB in two bytes and 1.6
/// GB in four. With 256 MiB it took 96 ms on an H200, and a layer of as many operations on small images 1.9
/// ms.
constexpr std::size_t kWorkspaceBytes = std::size_t{2} << 30U;

/// Owns an object of a library, and destroys it at the end of its lifetime.
template <typename Object, typename Status>
class OwnedObject {
 public:
  OwnedObject() = default;
  OwnedObject(Object object, Status (*destroy)(Object)) : object_(object), destroy_(destroy) {}
  OwnedObject(OwnedObject&& other) noexcept { swap(other); }
  OwnedObject& operator=(OwnedObject&& other) noexcept {
    swap(other);
    return *this;
  }
  OwnedObject(const OwnedObject&) = delete;
  OwnedObject& operator=(const OwnedObject&) = delete;
  ~OwnedObject() {
    if (destroy_ != nullptr) destroy_(object_);
  }

  Object get() const { return object_; }

 private:
  void swap(OwnedObject& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(destroy_, other.destroy_);
  }

  Object object_ = nullptr;
  Status (*destroy_)(Object) = nullptr;
};

template <typename Object>
using Dnn = OwnedObject<Object, cudnnStatus_t>;
template <typename Object>
using Blas = OwnedObject<Object, cublasStatus_t>;

struct Arithmetic {
  Type type = Type::float32;
  bool tf32 = false;  ///< float32 products by TF32
  /// Uses cuDNN for convolutions and LSTMs only; its documentation of other operations in bfloat16 is
  /// unclear.
  bool is_mostly_own = false;

  std::size_t bytes() const { return type == Type::float32 ? 4 : 2; }
};

/// The arguments must outlive it.
class Device {
 public:
  Device(Runtime& runtime, const Libraries& libraries, Kernels& kernels, const Arithmetic& arithmetic);

  Runtime& runtime() { return runtime_; }
  const Libraries& libraries() const { return libraries_; }
  Kernels& kernels() { return kernels_; }
  const Arithmetic& arithmetic() const { return arithmetic_; }
  cudnnHandle_t dnn() const { return dnn_.get(); }
  cublasLtHandle_t blas() const { return blas_.get(); }
  cudaStream_t stream() { return static_cast<cudaStream_t>(runtime_.stream()); }
  void* workspace() const { return workspace_.data(); }

  cudnnDataType_t dnn_type() const;
  cudaDataType_t blas_type() const;
  cudnnMathType_t dnn_math() const;

  /// Sets the layer that error messages name from now on; "" for none.
  void now_at(std::string layer) { layer_ = std::move(layer); }
  const std::string& at() const { return layer_; }
  void check(cudnnStatus_t status, const char* function) const;
  void check(cublasStatus_t status, const char* function) const;

  template <typename Object>
  Dnn<Object> make(cudnnStatus_t (*create)(Object*), cudnnStatus_t (*destroy)(Object), const char* name) {
    Object out = nullptr;
    check(create(&out), name);
    return {out, destroy};
  }

 private:
  Runtime& runtime_;
  const Libraries& libraries_;
  Kernels& kernels_;
  Arithmetic arithmetic_;
  std::string layer_;
  Dnn<cudnnHandle_t> dnn_;
  Blas<cublasLtHandle_t> blas_;
  Memory workspace_;
};

}  // namespace profiler::cuda
