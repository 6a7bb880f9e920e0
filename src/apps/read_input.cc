#include "apps/read_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/interrupt.h"

namespace decant {
namespace {

Expected<std::string> ReadAll(int descriptor, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return text;
    if (count > 0) {
      text.append(buffer.data(), static_cast<size_t>(count));
    } else if (errno != EINTR) {
      return Error(StatusCode::kInternal, "cannot read {}: {}", name,
                   std::generic_category().message(errno));
    }
    if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
  }
}

}  // namespace

Expected<std::string> ReadFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Error(StatusCode::kNotFound, "cannot open {}: {}", path,
                 std::generic_category().message(errno));
  }
  Expected<std::string> text = ReadAll(descriptor, path);
  close(descriptor);
  return text;
}

Expected<std::string> ReadStdin() { return ReadAll(STDIN_FILENO, "standard input"); }

}  // namespace decant
