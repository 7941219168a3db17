// A library that is opened while the program runs, so that one binary serves hosts with and without it.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cuda_runtime {

struct LibraryName {
  std::string what;                ///< for people: "the CUDA runtime"
  std::vector<std::string> files;  ///< the best first: "libcudart.so.13"
};

class SharedLibrary {
 public:
  /// The first file that opens: in the folders of FUSEWISE_CUDA_LIBRARIES, where the loader looks, in
  /// library_folders(). EnvironmentError, one line, where there is none.
  static SharedLibrary open(const LibraryName& name);

  /// nullptr: it has no such function.
  void* find(const char* function) const;
  /// EnvironmentError that names the library's file.
  void* at(const char* function) const;

  /// What the loader has opened.
  const std::string& file() const { return file_; }

 private:
  SharedLibrary(void* handle, std::string file);

  std::shared_ptr<void> handle_;
  std::string file_;
};

/// `into` becomes the function of this name; its type is that of the header's declaration.
template <typename Function>
void load(const SharedLibrary& library, Function*& into, const char* name) {
  into = reinterpret_cast<Function*>(library.at(name));
}

/// An environment variable; empty where it is not set.
using Environment = std::function<std::string(const char* name)>;

/// Where toolkits and Python packages put libraries and the loader does not look: CUDA_HOME, /usr/local/cuda,
/// and nvidia/*/lib of the Python installations that the environment and PATH name. Those that exist.
std::vector<std::string> library_folders(const Environment& environment);

}  // namespace cuda_runtime
