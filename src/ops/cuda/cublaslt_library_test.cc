#include "ops/cuda/cublaslt_library.h"

#include <gtest/gtest.h>

#include <vector>

namespace decant {
namespace {

TEST(CublasLtLibraryTest, NamesEverythingThatWasTried) {
  const std::vector<std::string> candidates = {"libno-such-library.so.13",
                                               "/nowhere/libno-such-library.so.12"};
  const Expected<CublasLtLibrary> library = OpenCublasLt(candidates);
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(library.status().message().find(
                "tried libno-such-library.so.13, /nowhere/libno-such-library.so.12"),
            std::string::npos)
      << library.status().message();
}

TEST(CublasLtLibraryTest, RefusesAnotherLibrary) {
  const std::vector<std::string> candidates = {"libno-such-library.so.13", "libm.so.6"};
  const Expected<CublasLtLibrary> library = OpenCublasLt(candidates);
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().message(),
            "libm.so.6 is not the cuBLASLt that decant needs: no cublasLtCreate");
}

TEST(CublasLtLibraryTest, OpensTheRealOneOnce) {
  const Expected<const CublasLtLibrary*> library = LoadCublasLt();
  if (!library.ok()) GTEST_SKIP() << library.status().message();
  EXPECT_GE((*library)->get_version(), 120000U);
  EXPECT_STRNE((*library)->get_status_string(CUBLAS_STATUS_INVALID_VALUE), "");
  EXPECT_EQ(*library, *LoadCublasLt());
}

}  // namespace
}  // namespace decant
