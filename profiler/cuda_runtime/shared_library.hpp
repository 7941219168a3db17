// A library that is loaded at run time, so that one binary serves hosts with and without it.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cuda_runtime {

struct LibraryName {
  std::string what;                ///< for messages: "the CUDA runtime"
  std::vector<std::string> files;  ///< in order of preference: "libcudart.so.13"
};

class SharedLibrary {
 public:
  /// Opens the first file that loads, from the folders of FUSEWISE_CUDA_LIBRARIES, the loader's own search
  /// and library_folders(). Throws EnvironmentError, one line, if there is none.
  static SharedLibrary open(const LibraryName& name);

  /// Returns nullptr if there is no such function.
  void* find(const char* function) const;
  /// Throws EnvironmentError, which names the library's file, if there is no such function.
  void* at(const char* function) const;

  /// The file that the loader has opened.
  const std::string& file() const { return file_; }

 private:
  SharedLibrary(void* handle, std::string file);

  std::shared_ptr<void> handle_;
  std::string file_;
};

/// Sets `into` to the function of this name; its type is that of the header's declaration.
template <typename Function>
void load(const SharedLibrary& library, Function*& into, const char* name) {
  into = reinterpret_cast<Function*>(library.at(name));
}

/// Returns an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char* name)>;

/// Returns existing folders in which toolkits and Python packages put libraries and which the loader does not
/// search: CUDA_HOME, /usr/local/cuda, and nvidia/*/lib of the Python installations that the environment and
/// PATH name.
std::vector<std::string> library_folders(const Environment& environment);

}  // namespace cuda_runtime
