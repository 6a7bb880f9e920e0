#include "model/model_location.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/mapped_file.h"

// The cache's layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache:
// models--ORG--NAME/refs/main names the folder in models--ORG--NAME/snapshots that is current.

namespace decant {
namespace {

namespace fs = std::filesystem;

/// Models that scripts/fetch-model gets, by a part of the names that people know them by.
constexpr std::pair<std::string_view, std::string_view> kFetchable[] = {
    {"smollm2-135m", "smollm2-135m"}, {"qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b"}};

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Names in a folder, in order; at most some thousands.
std::vector<std::string> ListFolder(const fs::path& folder) {
  constexpr size_t kMaxEntries = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end;
       !error && entry != end && names.size() < kMaxEntries; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string LastPart(const std::string& path) {
  const fs::path whole = fs::path(path).lexically_normal();
  return (whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string();
}

Expected<ModelLocation> LocateInFolder(const std::string& folder, std::string name) {
  if (Exists(fs::path(folder) / "config.json")) {
    return ModelLocation{ModelFileKind::kHuggingFace, folder, std::move(name)};
  }
  std::vector<std::string> files = ListFolder(folder);
  std::erase_if(files, [](const std::string& file) { return !file.ends_with(".gguf"); });
  if (files.size() == 1) {
    return ModelLocation{ModelFileKind::kGguf, folder + "/" + files[0], std::move(name)};
  }
  if (files.empty()) {
    return InvalidArgument("{}: it holds neither a config.json (with safetensors) nor a GGUF file",
                           folder);
  }
  constexpr size_t kShown = 8;
  const size_t more = files.size() - std::min(files.size(), kShown);
  files.resize(files.size() - more);
  return InvalidArgument("{}: it holds several GGUF files; name one of them: {}{}", folder,
                         fmt::join(files, ", "), more > 0 ? ", ..." : "");
}

/// One part of a hub name; never "." or "..".
bool IsHubNamePart(std::string_view part) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !part.empty() && part.size() <= 96 && part.front() != '.' && part.front() != '-' &&
         std::ranges::all_of(part, allowed);
}

/// Whether the text has the form of a hub name: ORG/NAME, or NAME alone for the oldest models.
bool IsHubName(std::string_view model) {
  const size_t slash = model.find('/');
  if (slash == std::string_view::npos) return IsHubNamePart(model) && !model.ends_with(".gguf");
  return IsHubNamePart(model.substr(0, slash)) && IsHubNamePart(model.substr(slash + 1));
}

fs::path HubCache() {
  const auto variable = [](const char* name) -> std::string_view {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (!variable(name).empty()) return variable(name);
  }
  if (!variable("HF_HOME").empty()) return fs::path(variable("HF_HOME")) / "hub";
  fs::path caches = variable("XDG_CACHE_HOME");
  if (caches.empty()) caches = fs::path(variable("HOME")) / ".cache";
  return caches / "huggingface" / "hub";
}

/// The snapshot that refs/main names; without refs/main, the only snapshot.
Expected<std::string> CurrentSnapshot(const fs::path& repository) {
  const fs::path snapshots = repository / "snapshots";
  const fs::path reference = repository / "refs" / "main";
  if (Exists(reference)) {
    constexpr size_t kMaxBytes = 256;
    DECANT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(reference.string()));
    std::string hash(reinterpret_cast<const char*>(file.bytes().data()),
                     std::min(file.size(), kMaxBytes));
    while (!hash.empty() && std::isspace(static_cast<unsigned char>(hash.back())) != 0) {
      hash.pop_back();
    }
    if (!IsHubNamePart(hash)) {
      return DataLoss("{}: it does not hold the name of a snapshot", reference.string());
    }
    if (!IsFolder(snapshots / hash)) {
      return DataLoss("{}: it names the snapshot {}, which is not in {}", reference.string(), hash,
                      snapshots.string());
    }
    return (snapshots / hash).string();
  }
  const std::vector<std::string> hashes = ListFolder(snapshots);
  if (hashes.size() == 1) return (snapshots / hashes[0]).string();
  return DataLoss("{}: {} snapshots and no refs/main that says which is current",
                  repository.string(), hashes.size());
}

std::string HowToDownload(const std::string& model) {
  std::string lower = model;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string ways = IsHubName(model) ? fmt::format("'hf download {}'", model)
                                      : "'hf download ORG/NAME' gets one from the hub";
  for (const auto& [part, name] : kFetchable) {
    if (lower.find(part) == std::string::npos) continue;
    ways = fmt::format("{}{}'scripts/fetch-model {}'", IsHubName(model) ? ways : "",
                       IsHubName(model) ? " or " : "", name);
  }
  return ways;
}

}  // namespace

Expected<ModelLocation> LocateModel(const std::string& model) {
  if (model.empty()) return InvalidArgument("the model's name is empty");
  if (IsFolder(model)) return LocateInFolder(model, LastPart(model));
  if (Exists(model)) {
    if (model.ends_with(".safetensors") || model.ends_with(".json")) {
      return InvalidArgument("{}: a Hugging Face model is named by its folder, not by one file",
                             model);
    }
    return ModelLocation{ModelFileKind::kGguf, model, LastPart(model)};
  }
  if (!IsHubName(model)) {
    return Error(StatusCode::kNotFound, "{}: no such file or folder; to download a model: {}",
                 model, HowToDownload(model));
  }
  std::string folder = "models--" + model;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  const fs::path repository = HubCache() / folder;
  if (!IsFolder(repository)) {
    return Error(StatusCode::kNotFound,
                 "{}: no such file or folder, and not in the Hugging Face cache ({}); to download "
                 "it: {}",
                 model, repository.string(), HowToDownload(model));
  }
  Expected<std::string> snapshot = CurrentSnapshot(repository);
  if (!snapshot.ok()) return snapshot.status();
  return LocateInFolder(*snapshot, model);
}

}  // namespace decant
