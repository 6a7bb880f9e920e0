#include "sim/device_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/output_file.h"

namespace decant {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMilli = 1e3;
constexpr double kMost = 1e12;

/// A number of the file and where it goes. Times stand in milliseconds, for people.
struct Time {
  const char* key;
  double* seconds;
};

std::vector<Time> StepTimes(StepTimeParameters& device) {
  return {{"host_ms", &device.host_seconds},
          {"host_row_ms", &device.host_row_seconds},
          {"step_ms", &device.step_seconds},
          {"row_ms", &device.row_seconds},
          {"loaded_ms", &device.loaded_seconds},
          {"narrow_page_ms", &device.narrow_page_seconds},
          {"prompt_step_ms", &device.prompt_seconds},
          {"prompt_longest_position_ms", &device.prompt_longest_seconds},
          {"prompt_pair_ms", &device.prompt_pair_seconds}};
}

std::vector<Time> DecodeTimes(DecodeAttentionTime& decode) {
  return {{"step_ms", &decode.step_seconds},
          {"row_ms", &decode.row_seconds},
          {"longest_position_ms", &decode.longest_seconds},
          {"slice_position_ms", &decode.slice_seconds},
          {"wave_position_ms", &decode.wave_seconds},
          {"position_ms", &decode.position_seconds}};
}

/// Takes the keys of one object; what is left over is unknown.
class Reader {
 public:
  Reader(Json object, std::string place) : object_(std::move(object)), place_(std::move(place)) {}

  Status Take(const char* key, double& value, double least, double most) {
    DECANT_ASSIGN_OR_RETURN(const Json found, Take(key));
    if (found.is_number()) {
      value = found.get<double>();
      if (value >= least && value <= most) return Status();
    }
    return DataLoss("{}{} is {}; allowed: a number from {} to {}", place_, key, found.dump(), least,
                    most);
  }

  template <typename Integer>
  Status TakeInteger(const char* key, Integer& value, Integer most) {
    double number = 0;
    DECANT_RETURN_IF_ERROR(Take(key, number, 0, static_cast<double>(most)));
    value = static_cast<Integer>(number);
    return Status();
  }

  Status TakeTimes(const std::vector<Time>& times) {
    for (const auto& [key, seconds] : times) {
      DECANT_RETURN_IF_ERROR(Take(key, *seconds, 0, kMost));
      *seconds /= kMilli;
    }
    return Status();
  }

  Expected<Json> Take(const char* key) {
    if (!object_.is_object() || !object_.contains(key)) {
      return DataLoss("{}{} is missing", place_, key);
    }
    Json value = object_[key];
    object_.erase(key);
    return value;
  }

  Status Finish() const {
    if (object_.empty()) return Status();
    return DataLoss("{}{} is no key of a device", place_, object_.begin().key());
  }

 private:
  Json object_;
  std::string place_;
};

Expected<std::string> TakeText(Reader& reader, const char* key) {
  DECANT_ASSIGN_OR_RETURN(const Json value, reader.Take(key));
  if (!value.is_string()) return DataLoss("{} is {}; allowed: a string", key, value.dump());
  return value.get<std::string>();
}

Expected<std::vector<LinearPoint>> ReadLinear(const Json& list) {
  std::vector<LinearPoint> points;
  if (!list.is_array()) return DataLoss("linear is {}; allowed: a list of points", list.dump());
  for (const Json& entry : list) {
    LinearPoint point;
    Reader reader(entry, "linear: ");
    DECANT_RETURN_IF_ERROR(reader.TakeInteger("tokens", point.tokens, 1 << 30));
    DECANT_RETURN_IF_ERROR(reader.TakeTimes({{"ms", &point.seconds}}));
    DECANT_RETURN_IF_ERROR(reader.Finish());
    points.push_back(point);
  }
  return points;
}

Expected<std::vector<DecodeAttentionTime>> ReadDecode(const Json& kernels) {
  std::vector<DecodeAttentionTime> times;
  if (!kernels.is_object()) {
    return DataLoss("decode_attention is {}; allowed: an object with a key for each kernel",
                    kernels.dump());
  }
  for (const auto& [name, entry] : kernels.items()) {
    DecodeAttentionTime time;
    const Expected<SimulatedKernel> kernel = FindSimulatedKernel(name);
    if (!kernel.ok()) return DataLoss("decode_attention: {}", kernel.status().message());
    time.kernel = *kernel;
    Reader reader(entry, name + ": ");
    DECANT_RETURN_IF_ERROR(reader.TakeTimes(DecodeTimes(time)));
    DECANT_RETURN_IF_ERROR(reader.Finish());
    times.push_back(time);
  }
  return times;
}

/// In milliseconds, to seven figures: more than any fit knows.
double Milliseconds(double seconds) { return std::stod(fmt::format("{:.7g}", seconds * kMilli)); }

}  // namespace

Expected<StepTimeParameters> ParseDevice(std::string_view text) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) return DataLoss("no JSON object");
  StepTimeParameters device;
  Reader reader(root, "");
  DECANT_ASSIGN_OR_RETURN(device.device, TakeText(reader, "device"));
  DECANT_ASSIGN_OR_RETURN(device.model, TakeText(reader, "model"));
  DECANT_RETURN_IF_ERROR(TakeText(reader, "fitted_from").status());
  DECANT_ASSIGN_OR_RETURN(const Json in_flight, reader.Take("one_step_in_flight"));
  if (!in_flight.is_boolean()) {
    return DataLoss("one_step_in_flight is {}; allowed: true, false", in_flight.dump());
  }
  device.one_step_in_flight = in_flight.get<bool>();
  DECANT_RETURN_IF_ERROR(reader.TakeInteger("multiprocessors", device.multiprocessors, 1 << 16));
  DECANT_RETURN_IF_ERROR(reader.TakeInteger("kv_heads", device.kv_heads, 1 << 16));
  DECANT_RETURN_IF_ERROR(reader.TakeInteger("pool_slots", device.pool_slots, int64_t{1} << 31));
  DECANT_RETURN_IF_ERROR(reader.TakeTimes(StepTimes(device)));
  DECANT_ASSIGN_OR_RETURN(const Json linear, reader.Take("linear"));
  DECANT_ASSIGN_OR_RETURN(device.linear, ReadLinear(linear));
  DECANT_ASSIGN_OR_RETURN(const Json decode, reader.Take("decode_attention"));
  DECANT_ASSIGN_OR_RETURN(device.decode, ReadDecode(decode));
  DECANT_RETURN_IF_ERROR(reader.Finish());
  return device;
}

Expected<StepTimeParameters> ReadDevice(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return Error(StatusCode::kNotFound, "{} cannot be read", path.string());
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Expected<StepTimeParameters> device = ParseDevice(text);
  if (!device.ok()) return device.status().WithContext(path.string());
  return device;
}

std::string DeviceText(const StepTimeParameters& device, std::string_view fitted_from) {
  StepTimeParameters copy = device;  // Time points into it.
  Json root = {{"device", device.device},
               {"model", device.model},
               {"fitted_from", fitted_from},
               {"one_step_in_flight", device.one_step_in_flight},
               {"multiprocessors", device.multiprocessors},
               {"kv_heads", device.kv_heads},
               {"pool_slots", device.pool_slots}};
  for (const auto& [key, seconds] : StepTimes(copy)) root[key] = Milliseconds(*seconds);
  root["linear"] = Json::array();
  for (const LinearPoint& point : device.linear) {
    root["linear"].push_back({{"tokens", point.tokens}, {"ms", Milliseconds(point.seconds)}});
  }
  for (DecodeAttentionTime& decode : copy.decode) {
    Json& entry = root["decode_attention"][std::string(SimulatedKernelName(decode.kernel))];
    for (const auto& [key, seconds] : DecodeTimes(decode)) entry[key] = Milliseconds(*seconds);
  }
  return root.dump(2);
}

Status WriteDevice(const StepTimeParameters& device, std::string_view fitted_from,
                   const std::filesystem::path& path) {
  DECANT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path, OutputMode::kReplace));
  std::istringstream lines(DeviceText(device, fitted_from));
  for (std::string line; std::getline(lines, line);) {
    DECANT_RETURN_IF_ERROR(file.WriteLine(line));
  }
  return file.Close();
}

}  // namespace decant
