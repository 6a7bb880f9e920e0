#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/testing/temporary_folder.h"
#include "engine/load_engine.h"
#include "model/testing/tiny_model.h"

namespace decant {

/// For tests: writes a tiny model to a file and loads engines of it.
class TinyEngineTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::BuildTinyModel({}).WriteTo(path_); }

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
  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "tiny.gguf";
};

}  // namespace decant
