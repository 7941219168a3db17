// Tests where libraries that are loaded at run time are searched for.

#include "profiler/cuda_runtime/shared_library.hpp"

#include <pwd.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

TEST_CASE("shared library: what the environment names, then Python installations, each folder once") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / fmt::format("fusewise-libraries-{}", ::getpid());
  const auto put = [&](const std::string& file) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << "x";
    return (root / file).parent_path().string();
  };
  const auto in = [&](const char* name) { return (root / name).string(); };
  put("venv/bin/python3");
  put("other/bin/python3");
  const std::string toolkit = put("toolkit/lib64/libcudart.so.13");
  const std::string imported = put("imports/nvidia/nccl/lib/libnccl.so.2");
  const std::string first = put("venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  const std::string second = put("other/lib/python3.11/dist-packages/nvidia/cu13/lib/libcudnn.so.9");
  const std::string at_home = put("home/.local/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  put("venv/lib/ruby3/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  put("no-python/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  const std::string linked = put("linked/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  put("linked/bin/python3.12");
  fs::create_symlink("python3.12", root / "linked/bin/python3");
  fs::create_directories(root / "links/bin");
  fs::create_symlink(root / "linked/bin/python3", root / "links/bin/python3");
  fs::create_directories(root / "circle/bin");
  fs::create_symlink("python3", root / "circle/bin/python3");
  const std::map<std::string, std::string> variables = {
      {"CUDA_HOME", in("toolkit")},
      {"CUDA_PATH", in("toolkit")},
      {"PYTHONPATH", in("imports")},
      {"HOME", in("home")},
      {"PATH", in("venv/bin") + ":" + in("no-python/bin") + "::" + in("other/bin") + ":" + in("venv/bin") +
                   ":" + in("links/bin") + ":" + in("circle/bin")}};
  std::vector<std::string> found = cuda_runtime::library_folders([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::string() : at->second;
  });
  std::erase_if(found, [&](const std::string& folder) { return !folder.starts_with(root.string()); });
  CHECK(found == std::vector<std::string>{toolkit, imported, at_home, first, second, linked});
  fs::remove_all(root);
}

TEST_CASE("shared library: a file that other users can replace is not loaded") {
  const support::TemporaryFolder folder;
  const auto refusal = [&] {
    try {
      cuda_runtime::SharedLibrary::open({.what = "a library", .files = {"libfusewise-test.so.1"}});
    } catch (const core::EnvironmentError& error) {
      return std::string(error.what());
    }
    return std::string("loaded");
  };
  // No library, but what the loader says of it shows that it was opened.
  const std::filesystem::path library = folder.put("open/lib/libfusewise-test.so.1", "no library");
  const support::Environment environment("FUSEWISE_CUDA_LIBRARIES", library.parent_path().string());
  const std::string refused = "a library does not open: " + library.string() +
                              ": other users can replace this file, so it is not loaded";
  using std::filesystem::perms;
  const auto others_write = [](const std::filesystem::path& path, std::filesystem::perm_options how) {
    std::filesystem::permissions(path, perms::others_write, how);
  };
  CHECK(refusal().find("file too short") != std::string::npos);
  for (const std::filesystem::path& open :
       {library, library.parent_path(), library.parent_path().parent_path()}) {
    CAPTURE(open);
    others_write(open, std::filesystem::perm_options::add);
    CHECK(refusal() == refused);
    if (std::filesystem::is_directory(open)) {
      std::filesystem::permissions(open, perms::sticky_bit, std::filesystem::perm_options::add);
      CHECK(refusal().find("file too short") != std::string::npos);
      std::filesystem::permissions(open, perms::sticky_bit, std::filesystem::perm_options::remove);
    }
    others_write(open, std::filesystem::perm_options::remove);
    // A group of nobody else may write; one that another user is in may not, and no other user may own it.
    std::filesystem::permissions(open, perms::group_write, std::filesystem::perm_options::add);
    CHECK(refusal().find("file too short") != std::string::npos);
    constexpr uid_t kDaemon = 1;
    constexpr auto kAsItIs = static_cast<uid_t>(-1);
    if (::geteuid() != 0 || ::getpwuid(kDaemon) == nullptr) continue;
    REQUIRE(::chown(open.c_str(), kAsItIs, ::getpwuid(kDaemon)->pw_gid) == 0);
    CHECK(refusal() == refused);
    std::filesystem::permissions(open, perms::group_write, std::filesystem::perm_options::remove);
    CHECK(refusal().find("file too short") != std::string::npos);
    REQUIRE(::chown(open.c_str(), kDaemon, 0) == 0);
    CHECK(refusal() == refused);
    REQUIRE(::chown(open.c_str(), 0, 0) == 0);
  }
}

}  // namespace
