#include "bench/gates/gate_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace decant {
namespace {

/// Failures shown one by one; a broken kernel has thousands.
constexpr size_t kFailuresShown = 10;

JsonArray TextArray(const std::vector<std::string>& texts, size_t most) {
  JsonArray array;
  for (size_t i = 0; i < std::min(texts.size(), most); ++i) array.Add(texts[i]);
  return array;
}

}  // namespace

JsonObject ToJson(const GateReport& report, const RunHeader& header) {
  JsonObject row;
  row.Add("gate", report.gate)
      .Add("passed", report.passed())
      .Add("compared", report.compared)
      .Add("largest_difference", report.largest_difference);
  if (report.largest_ulps) row.Add("largest_ulps", *report.largest_ulps);
  JsonArray sites;
  for (const FlipSite& site : report.flip_sites) {
    sites.Add(JsonObject()
                  .Add("where", site.where)
                  .Add("position", site.position)
                  .Add("reference_token", site.reference_token)
                  .Add("token", site.token)
                  .Add("gap", site.gap)
                  .Add("allowed_gap", site.allowed_gap)
                  .Add("requests", site.requests));
  }
  row.Add("flip_sites", sites)
      .Add("notes", TextArray(report.notes, report.notes.size()))
      .Add("failures", TextArray(report.failures, kFailuresShown))
      .Add("failure_count", report.failures.size())
      .Add("header", HeaderFields(header));
  return row;
}

std::string ToText(const GateReport& report) {
  std::string text = report.table;
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  for (const FlipSite& site : report.flip_sites) {
    text += fmt::format("flip: {}, token {}: {} for {}, gap {:.4f}, {} request{}\n", site.where,
                        site.position, site.token, site.reference_token, site.gap, site.requests,
                        site.requests == 1 ? "" : "s");
  }
  for (size_t i = 0; i < std::min(report.failures.size(), kFailuresShown); ++i) {
    text += fmt::format("fault: {}\n", report.failures[i]);
  }
  if (report.failures.size() > kFailuresShown) {
    text += fmt::format("fault: {} more\n", report.failures.size() - kFailuresShown);
  }
  return text + fmt::format("gate {}: {}\n", report.gate, report.passed() ? "passed" : "FAILED");
}

}  // namespace decant
