#include "ops/cuda/cublaslt_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace decant {
namespace {

std::vector<std::string> CublasLtCandidates() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') folders.emplace_back(value);
  }
  folders.emplace_back("/usr/local/cuda");

  std::vector<std::string> candidates;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    candidates.emplace_back(name);
    for (const std::string& folder : folders) {
      candidates.push_back(fmt::format("{}/lib64/{}", folder, name));
      candidates.push_back(fmt::format("{}/targets/x86_64-linux/lib/{}", folder, name));
    }
  }
  return candidates;
}

/// Looks functions up in an open library and remembers the first that is missing.
class Resolver {
 public:
  explicit Resolver(void* handle) : handle_(handle) {}

  template <typename Function>
  void Find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

}  // namespace

Expected<CublasLtLibrary> OpenCublasLt(std::span<const std::string> candidates) {
  void* handle = nullptr;
  std::string opened;
  std::string tried;
  for (const std::string& candidate : candidates) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      opened = candidate;
      break;
    }
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  if (handle == nullptr) {
    return Error(StatusCode::kFailedPrecondition,
                 "cuBLASLt, which linear layers on a GPU need, was not found; tried {}; set "
                 "LD_LIBRARY_PATH to its folder or install CUDA's libcublas",
                 tried);
  }

  CublasLtLibrary library;
  Resolver resolver(handle);
  resolver.Find("cublasLtCreate", library.create);
  resolver.Find("cublasLtDestroy", library.destroy);
  resolver.Find("cublasLtGetVersion", library.get_version);
  resolver.Find("cublasLtGetStatusString", library.get_status_string);
  resolver.Find("cublasLtMatmul", library.matmul);
  resolver.Find("cublasLtMatmulDescCreate", library.matmul_desc_create);
  resolver.Find("cublasLtMatmulDescDestroy", library.matmul_desc_destroy);
  resolver.Find("cublasLtMatmulDescSetAttribute", library.matmul_desc_set_attribute);
  resolver.Find("cublasLtMatrixLayoutCreate", library.matrix_layout_create);
  resolver.Find("cublasLtMatrixLayoutDestroy", library.matrix_layout_destroy);
  resolver.Find("cublasLtMatrixLayoutSetAttribute", library.matrix_layout_set_attribute);
  resolver.Find("cublasLtMatmulPreferenceCreate", library.matmul_preference_create);
  resolver.Find("cublasLtMatmulPreferenceDestroy", library.matmul_preference_destroy);
  resolver.Find("cublasLtMatmulPreferenceSetAttribute", library.matmul_preference_set_attribute);
  resolver.Find("cublasLtMatmulAlgoGetHeuristic", library.matmul_algo_get_heuristic);
  resolver.Find("cublasLtMatmulAlgoGetIds", library.matmul_algo_get_ids);
  resolver.Find("cublasLtMatmulAlgoInit", library.matmul_algo_init);
  resolver.Find("cublasLtMatmulAlgoCheck", library.matmul_algo_check);
  resolver.Find("cublasLtMatmulAlgoCapGetAttribute", library.matmul_algo_cap_get_attribute);
  resolver.Find("cublasLtMatmulAlgoConfigGetAttribute", library.matmul_algo_config_get_attribute);
  resolver.Find("cublasLtMatmulAlgoConfigSetAttribute", library.matmul_algo_config_set_attribute);
  if (!resolver.missing().empty()) {
    dlclose(handle);
    return Error(StatusCode::kFailedPrecondition, "{} is not the cuBLASLt that decant needs: no {}",
                 opened, resolver.missing());
  }
  return library;
}

Expected<const CublasLtLibrary*> LoadCublasLt() {
  static const Expected<CublasLtLibrary> library = OpenCublasLt(CublasLtCandidates());
  if (!library.ok()) return library.status();
  return &library.value();
}

}  // namespace decant
