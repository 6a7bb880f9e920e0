#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "engine/load_engine.h"
#include "model/testing/tiny_model.h"

namespace decant {

/// For tests: writes a tiny model to a file and loads engines of it.
class TinyEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = (std::filesystem::temp_directory_path() /
             fmt::format("decant_{}_{}_{}.gguf", info->test_suite_name(), info->name(), getpid()))
                .string();
    testing::BuildTinyModel({}).WriteTo(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::unique_ptr<ServedModel> Load(DecodeKernel kernel, int32_t max_batch,
                                    int32_t chunk_tokens) const {
    EngineOptions options;
    options.model = path_;
    options.threads = 1;
    options.decode_kernel = kernel;
    options.pool_gib = 0.25;
    options.max_batch = max_batch;
    options.chunk_tokens = chunk_tokens;
    return LoadEngine(options, nullptr).value();
  }

 private:
  std::string path_;
};

}  // namespace decant
