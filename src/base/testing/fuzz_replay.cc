// Runs files through a fuzzer in builds without libFuzzer, so that what was once found stays mended
// whatever the compiler. Arguments: files, and folders of them.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

bool Replay(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    fmt::print(stderr, "{} cannot be read\n", path.string());
    return false;
  }
  fmt::print("{}\n", path.string());
  std::fflush(stdout);  // so that a crash comes after the name of its input
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::set<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.insert(argv[i]);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.insert(entry.path());
    }
  }
  bool ok = !files.empty();
  for (const fs::path& file : files) ok = Replay(file) && ok;
  fmt::print("{} inputs{}\n", files.size(), ok ? "" : ": failed");
  return ok ? 0 : 1;
}
