#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "ops/cuda/cuda_finite_scan.h"
#include "ops/cuda/device.h"

namespace decant {
namespace {

constexpr int32_t kTokens = 37;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> Encode(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * DTypeSize(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* const out = bytes.data() + i * DTypeSize(dtype);
    if (dtype == DType::kF32) {
      std::memcpy(out, &values[i], sizeof(float));
    } else {
      const uint16_t bits = dtype == DType::kF16 ? ToF16(values[i]).bits : ToBf16(values[i]).bits;
      std::memcpy(out, &bits, sizeof(bits));
    }
  }
  return bytes;
}

/// Both scans find the same in matrices of every type, with faults at every edge of a row, where
/// several places have faults, and in steps of different length.
TEST(CudaFiniteScanTest, FindsWhatTheHostFinds) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  ASSERT_TRUE(OpenCudaDevice(0).ok());
  const CudaStream stream = CudaStream::Create().value();
  Status noted;
  CudaFiniteScan scan(stream, [&](const Status& status) {
    if (noted.ok()) noted = status;
  });
  HostFiniteScan host;
  int32_t found = 0;
  for (const int32_t tokens : {5, kTokens, 1}) {
    scan.Restart(tokens);
    host.Restart(tokens);
    int32_t place = 3;
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
      for (const int32_t cols : {1, 96, 257, 1536}) {
        const CounterRng rng(place);
        std::vector<float> values(static_cast<size_t>(tokens) * cols);
        // The largest numbers of fp16 are numbers.
        for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 65504.0F : -1.5F;
        for (int32_t t = 0; t < tokens; ++t) {
          if (rng.Below(t, 6) != 0) continue;
          float* const row = values.data() + static_cast<size_t>(t) * cols;
          row[0] = kInf;
          row[cols - 1] = rng.Below(1000 + t, 2) == 0 ? kNaN : -kInf;
          if (cols > 3) row[rng.Below(2000 + t, cols)] = kNaN;
        }
        const std::vector<std::byte> bytes = Encode(values, dtype);
        const DeviceBuffer device = DeviceBuffer::Allocate(bytes.size(), "values").value();
        ASSERT_EQ(CopyToDevice(device.data(), bytes.data(), bytes.size()), cudaSuccess);
        TensorView view{.data = device.data(), .dtype = dtype, .rows = tokens, .cols = cols};
        scan.Look(view, place);
        ASSERT_TRUE(stream.Synchronize().ok());
        std::vector<std::byte> copy = bytes;
        view.data = copy.data();
        host.Look(view, place++);
      }
    }
    const std::span<const TokenFault> faults = scan.Faults();
    const std::span<const TokenFault> expected = host.Faults();
    ASSERT_EQ(faults.size(), expected.size());
    for (size_t t = 0; t < faults.size(); ++t) {
      EXPECT_EQ(faults[t].place, expected[t].place) << t;
      EXPECT_EQ(faults[t].infinities, expected[t].infinities) << t;
      EXPECT_EQ(faults[t].nans, expected[t].nans) << t;
      EXPECT_EQ(faults[t].values, expected[t].values) << t;
      found += faults[t].place == TokenFault::kNowhere ? 0 : 1;
    }
  }
  EXPECT_TRUE(noted.ok()) << noted.ToString();
  EXPECT_GT(found, 20);
}

}  // namespace
}  // namespace decant
