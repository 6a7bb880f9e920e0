// Times the ranged prompt kernel: 28 layers, each with its own cache, in one graph with
// programmatic dependent launch, back to back and behind a kernel that keeps all multiprocessors
// busy for 3 us.
//
// ranged_prompt_benchmark [--shape HEADS KV_HEADS HEAD_DIM] [--rows 64|128] [--cut all|none]
// [CASE ...]
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "ops/cuda/launch.cuh"
#include "ops/cuda/ranged_prompt_problem.cuh"

namespace decant::ranged_prompt_test {
namespace {

constexpr int kLayers = 28;
constexpr int kRepeats = 15;
AttentionShape g_shape{.heads = 12, .kv_heads = 2, .head_dim = 128};  ///< --shape
constexpr int32_t kPageSize = 64;
constexpr double kFlopsPerMicrosecond = 780e6;  ///< What matrix units reach on an H200.
constexpr double kBytesPerMicrosecond = 4.3e6;  ///< What its memory reaches.

struct Case {
  std::string name;
  std::vector<Chunk> chunks;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Chunk& chunk : std::vector<Chunk>{{512, 0},
                                               {512, 512},
                                               {512, 1536},
                                               {512, 3584},
                                               {512, 7680},
                                               {256, 3840},
                                               {1024, 0},
                                               {1024, 3072},
                                               {2048, 0},
                                               {2048, 2048}}) {
    cases.push_back({fmt::format("{}@{}", chunk.tokens, chunk.history), {chunk}});
  }
  cases.push_back({"256@0x2", {{256, 0}, {256, 0}}});
  cases.push_back({"64@0x8", std::vector<Chunk>(8, {64, 0})});
  Case mixed{"mixed", std::vector<Chunk>(8, {16, 0})};
  mixed.chunks.insert(mixed.chunks.end(), 4, {64, 0});
  mixed.chunks.push_back({128, 900});
  cases.push_back(mixed);
  return cases;
}

__global__ void Busy(int64_t clocks) {
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  const int64_t start = clock64();
  while (clock64() - start < clocks) {
  }
}

/// Median microseconds of one run of what `body` queues.
double TimeGraph(cudaStream_t stream, const std::function<void()>& body) {
  cudaGraph_t graph;
  cudaGraphExec_t run;
  cudaEvent_t begin;
  cudaEvent_t end;
  Require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capturing");
  body();
  Require(cudaStreamEndCapture(stream, &graph), "capturing");
  Require(cudaGraphInstantiate(&run, graph, 0), "instantiating");
  Require(cudaEventCreate(&begin), "an event");
  Require(cudaEventCreate(&end), "an event");
  std::vector<float> times;
  for (int i = 0; i < kRepeats + 3; ++i) {
    Require(cudaEventRecord(begin, stream), "an event");
    Require(cudaGraphLaunch(run, stream), "a graph");
    Require(cudaEventRecord(end, stream), "an event");
    Require(cudaEventSynchronize(end), "a graph");
    float milliseconds = 0;
    Require(cudaEventElapsedTime(&milliseconds, begin, end), "an event");
    if (i >= 3) times.push_back(milliseconds);
  }
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::ranges::sort(times);
  return times[times.size() / 2] * 1e3;
}

void Bench(const Case& c, const PromptPlanChoices& choices, int multiprocessors,
           cudaStream_t stream) {
  std::vector<int32_t> lengths;
  double products = 0;
  double bytes = 0;
  for (const Chunk& chunk : c.chunks) {
    lengths.push_back(chunk.tokens + chunk.history);
    products += chunk.tokens * (chunk.history + (chunk.tokens + 1) / 2.0);
    bytes += lengths.back() * 4.0 * g_shape.kv_heads * g_shape.head_dim;
  }
  const int32_t tokens = TokensOf(c.chunks);
  const int64_t elements = int64_t{tokens} * g_shape.heads * g_shape.head_dim;
  bytes += 4.0 * static_cast<double>(elements);
  const double floor =
      std::max(products * 4 * g_shape.heads * g_shape.head_dim / kFlopsPerMicrosecond,
               bytes / kBytesPerMicrosecond);
  const Tables tables(lengths, kPageSize, 3);
  std::vector<Pool> pools;
  const size_t pool_elements =
      size_t{2} * g_shape.kv_heads * kPageSize * g_shape.head_dim * tables.pages;
  for (int layer = 0; layer < kLayers; ++layer) {
    pools.emplace_back(g_shape, kPageSize, tables.pages);
    FillUniform<<<264, 256>>>(static_cast<__half*>(pools.back().view().k), pool_elements, 1.5F,
                              layer);
  }
  Memory<uint16_t> queries(elements);
  Memory<uint16_t> attended(elements);
  FillUniform<<<264, 256>>>(reinterpret_cast<__half*>(queries.data()), queries.size(), 2.0F, 99);
  const std::vector<BatchRow> rows = MakeRows(c.chunks);
  Runner runner(CudaType::kF16, {.shape = g_shape,
                                 .multiprocessors = multiprocessors,
                                 .max_tokens = tokens,
                                 .max_rows = static_cast<int32_t>(rows.size())});
  runner.Plan(rows, tables.device.data(), tables.stride, choices);
  std::vector<double> plan_times;
  for (int i = 0; i < 21; ++i) {
    const auto start = std::chrono::steady_clock::now();
    runner.prompt().planner().Plan(rows, tables.stride, choices);
    plan_times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::ranges::sort(plan_times);
  Require(cudaDeviceSynchronize(), "preparing");
  const auto attend = [&](int layer) {
    runner.Launch(pools[layer].view(), queries.data(), attended.data(), stream);
  };
  const auto busy = [&] { LaunchOverlapped(Busy, multiprocessors, 256, 0, stream, int64_t{5000}); };
  const auto layers = [&](const auto& body) {
    return TimeGraph(stream,
                     [&] {
                       for (int layer = 0; layer < kLayers; ++layer) body(layer);
                     }) /
           kLayers;
  };
  const double back_to_back = layers(attend);
  const double alone = layers([&](int) { busy(); });
  const double behind = layers([&](int layer) {
                          busy();
                          attend(layer);
                        }) -
                        alone;
  std::printf("%-10s %6.1f | %6.2f %6.2f %5.2f | %5d %5d %5d | %5.1f %5.1f\n", c.name.c_str(),
              floor, back_to_back, behind, back_to_back / floor, runner.counts().items,
              runner.counts().merges, runner.counts().slots, plan_times[plan_times.size() / 2],
              plan_times.back());
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  PromptPlanChoices choices;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--rows" && i + 1 < argc) {
      choices.tile_rows = std::atoi(argv[++i]);
    } else if (argument == "--cut" && i + 1 < argc) {
      choices.cut = std::string_view(argv[++i]) == "all" ? PromptPlanChoices::Cut::kAll
                                                         : PromptPlanChoices::Cut::kNone;
    } else if (argument == "--shape" && i + 3 < argc) {
      g_shape = {.heads = std::atoi(argv[i + 1]),
                 .kv_heads = std::atoi(argv[i + 2]),
                 .head_dim = std::atoi(argv[i + 3])};
      i += 3;
    } else {
      wanted.emplace_back(argument);
    }
  }
  int multiprocessors = 0;
  Require(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "a device");
  cudaStream_t stream;
  Require(cudaStreamCreate(&stream), "a stream");
  std::printf("us a layer\n%-10s %6s | %6s %6s %5s | %5s %5s %5s | plan us\n", "case", "floor",
              "b2b", "behind", "ratio", "items", "merge", "slots");
  for (const Case& c : Cases()) {
    if (!wanted.empty() && std::ranges::find(wanted, c.name) == wanted.end()) continue;
    Bench(c, choices, multiprocessors, stream);
  }
  return 0;
}

}  // namespace
}  // namespace decant::ranged_prompt_test

int main(int argc, char** argv) { return decant::ranged_prompt_test::Main(argc, argv); }
