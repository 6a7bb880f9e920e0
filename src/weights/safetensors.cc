#include "weights/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "weights/safetensors_header.h"

namespace decant {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

Expected<SafetensorsFiles> SafetensorsFiles::Open(const std::string& folder) {
  SafetensorsFiles files;
  files.folder_ = folder;
  const std::string single = folder + "/" + kSingleName;
  const std::string index = folder + "/" + kIndexName;
  if (Exists(single)) {
    DECANT_RETURN_IF_ERROR(files.OpenSingle(single));
  } else if (Exists(index)) {
    DECANT_RETURN_IF_ERROR(files.OpenShards(index));
  } else {
    return Error(StatusCode::kNotFound, "{}: it holds neither {} nor {}", folder, kSingleName,
                 kIndexName);
  }
  return files;
}

Status SafetensorsFiles::OpenSingle(const std::string& path) {
  DECANT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  Expected<std::vector<TensorInfo>> tensors = internal::ParseSafetensors(file.bytes());
  if (!tensors.ok()) return tensors.status().WithContext(path);
  files_.push_back(std::move(file));
  SetTensors(std::move(tensors).value());
  return {};
}

Status SafetensorsFiles::OpenShards(const std::string& index_path) {
  DECANT_ASSIGN_OR_RETURN(const MappedFile index, MappedFile::Open(index_path));
  const auto parsed = internal::ParseSafetensorsIndex(
      {reinterpret_cast<const char*>(index.bytes().data()), index.size()});
  if (!parsed.ok()) return parsed.status().WithContext(index_path);

  std::map<std::string_view, std::vector<std::string_view>> shards;  // tensor names, ordered
  for (const auto& [tensor, shard] : *parsed) shards[shard].push_back(tensor);
  if (shards.size() > kMaxShards) {
    return DataLoss("{}: weight_map names {} files; at most {} are opened", index_path,
                    shards.size(), kMaxShards);
  }
  std::vector<TensorInfo> all;
  for (const auto& [shard, names] : shards) {
    const std::string path = fmt::format("{}/{}", folder_, shard);
    Expected<MappedFile> file = MappedFile::Open(path);
    if (!file.ok()) {
      return file.status().WithContext(fmt::format("{}: weight_map.{}", index_path, names[0]));
    }
    Expected<std::vector<TensorInfo>> tensors = internal::ParseSafetensors(file->bytes());
    if (!tensors.ok()) return tensors.status().WithContext(path);
    for (const TensorInfo& tensor : *tensors) {
      if (!std::ranges::binary_search(names, std::string_view(tensor.name))) {
        return DataLoss("{}: it holds {}, which {} does not place there", path, tensor.name,
                        kIndexName);
      }
    }
    if (tensors->size() != names.size()) {
      const auto missing = std::ranges::find_if(names, [&](std::string_view name) {
        return std::ranges::find(*tensors, name, &TensorInfo::name) == tensors->end();
      });
      return DataLoss("{}: weight_map places {} in {}, which does not hold it", index_path,
                      *missing, shard);
    }
    files_.push_back(std::move(*file));
    std::ranges::move(*tensors, std::back_inserter(all));
  }
  SetTensors(std::move(all));
  return {};
}

void SafetensorsFiles::Prefetch() const {
  for (const MappedFile& file : files_) file.Prefetch();
}

void SafetensorsFiles::Release(std::span<const std::byte> data) const {
  // All but the file that holds the bytes ignore them.
  for (const MappedFile& file : files_) file.Release(data);
}

}  // namespace decant
