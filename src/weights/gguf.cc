#include "weights/gguf.h"

#include <utility>

#include "weights/gguf_parser.h"

namespace decant {

Expected<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile file;
  file.path_ = path;
  DECANT_ASSIGN_OR_RETURN(file.mapping_, MappedFile::Open(path));
  DECANT_RETURN_IF_ERROR(file.Parse());
  return file;
}

Expected<GgufFile> GgufFile::FromBytes(std::string name, std::vector<std::byte> bytes) {
  GgufFile file;
  file.path_ = std::move(name);
  file.owned_ = std::move(bytes);
  DECANT_RETURN_IF_ERROR(file.Parse());
  return file;
}

Status GgufFile::Parse() {
  internal::GgufParser parser(bytes());
  if (Status status = parser.Parse(); !status.ok()) return status.WithContext(path_);
  version_ = parser.version();
  alignment_ = parser.alignment();
  metadata_ = GgufMetadata(path_, parser.TakeEntries());
  SetTensors(parser.TakeTensors());
  return Status();
}

}  // namespace decant
