#include "base/run_header.h"

#include <gtest/gtest.h>

#include <array>

namespace decant {
namespace {

TEST(RunHeaderTest, ReadsCpuInfo) {
  MachineInfo machine;
  ParseCpuInfo(
      "processor\t: 0\nmodel name\t: Some CPU @ 2: fast\nflags\t\t: fpu avx2 avx512f amx_bf16 x\n"
      "\nprocessor\t: 1\nmodel name\t: Another\nflags\t\t: fma\n",
      machine);
  EXPECT_EQ(machine.cpu_model, "Some CPU @ 2: fast");
  EXPECT_EQ(machine.cpu_features, (std::vector<std::string>{"avx2", "avx512f", "amx_bf16"}));

  ParseCpuInfo("no such lines", machine);
  EXPECT_EQ(machine.cpu_model, "unknown");
  EXPECT_TRUE(machine.cpu_features.empty());
}

TEST(RunHeaderTest, ReadsTheDriversVersion) {
  EXPECT_EQ(
      ParseDriverVersion("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                         "580.159.04  Release Build  (builder)  Mon Oct 1\nGCC version: 12.2.0"),
      "580.159.04");
  EXPECT_EQ(ParseDriverVersion("NVRM version: none\nGCC version: 12.2.0"), "");
  EXPECT_EQ(ParseDriverVersion(""), "");
}

TEST(RunHeaderTest, DescribesThisMachine) {
  const MachineInfo machine = DescribeMachine();
  EXPECT_GE(machine.logical_cores, 1);
  EXPECT_GT(machine.memory_bytes, 64 << 20);
  EXPECT_FALSE(machine.os.empty());
  EXPECT_EQ(machine.os.find('"'), std::string::npos) << machine.os;
  EXPECT_FALSE(BuildCommit().empty());
}

TEST(RunHeaderTest, WritesEveryField) {
  const RunHeader header = {.machine = {.cpu_model = "cpu",
                                        .cpu_features = {"avx2"},
                                        .logical_cores = 2,
                                        .memory_bytes = 1024,
                                        .os = "os",
                                        .kernel = "6.1",
                                        .gpus = {"GPU A", "GPU B"},
                                        .gpu_driver = "580.1"},
                            .commit = "abc",
                            .command = {"decant", "bench", "a \"b\""},
                            .seed = 7,
                            .utc_time = "2025-01-01T00:00:00Z"};
  EXPECT_EQ(ToJson(header).ToString(),
            R"({"header": {"machine": {"cpu": "cpu", "cpu_features": ["avx2"], )"
            R"("logical_cores": 2, "memory_bytes": 1024, "os": "os", "kernel": "6.1", )"
            R"("gpus": ["GPU A", "GPU B"], "gpu_driver": "580.1"}, )"
            R"("commit": "abc", "command": ["decant", "bench", "a \"b\""], "seed": 7, )"
            R"("utc_time": "2025-01-01T00:00:00Z"}})");

  const std::array<const char*, 2> command = {"decant", "bench"};
  const RunHeader made = MakeRunHeader(command, 3);
  EXPECT_EQ(made.command, (std::vector<std::string>{"decant", "bench"}));
  EXPECT_EQ(made.seed, 3U);
}

}  // namespace
}  // namespace decant
