#pragma once

#include <cublasLt.h>

#include <span>
#include <string>

#include "base/status.h"

namespace decant {

/// The functions of cuBLASLt that linear layers need, named as in its header without "cublasLt".
/// The library has half a gigabyte and is not part of decant: it is opened by name when the first
/// CUDA device is used, so that the same program runs on machines that have no CUDA.
struct CublasLtLibrary {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusString) get_status_string = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) matrix_layout_set_attribute = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) matmul_preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) matmul_preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) matmul_preference_set_attribute = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) matmul_algo_get_heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoGetIds) matmul_algo_get_ids = nullptr;
  decltype(&cublasLtMatmulAlgoInit) matmul_algo_init = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) matmul_algo_check = nullptr;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) matmul_algo_cap_get_attribute = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) matmul_algo_config_get_attribute = nullptr;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) matmul_algo_config_set_attribute = nullptr;
};

/// The library of this process, opened at the first call and kept. Looked for as
/// libcublasLt.so.13, then .so.12, each where the dynamic loader looks (LD_LIBRARY_PATH, the
/// system's cache) and then below $CUDA_HOME, $CUDA_PATH and /usr/local/cuda. Errors: failed
/// precondition, with every name that was tried.
Expected<const CublasLtLibrary*> LoadCublasLt();

/// The first of `candidates` (names or paths, as for dlopen) that opens. Errors: failed
/// precondition: none opens, or the first one that does lacks a function.
Expected<CublasLtLibrary> OpenCublasLt(std::span<const std::string> candidates);

}  // namespace decant
