#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cache/page_pool.h"
#include "sched/promise_checker.h"
#include "sched/scheduler.h"
#include "sim/fault_history.h"

namespace decant {

/// A scheduler with its pool, as a history drives it: the engine's own, or one with a known fault.
class SchedulerSubject {
 public:
  virtual ~SchedulerSubject() = default;
  virtual Status Submit(Request request) = 0;
  virtual const StepPlan& Next() = 0;
  virtual std::span<const TokenEvent> Commit(const StepResult& result) = 0;
  /// Without a sample: all that are left.
  virtual bool End(RequestId id, std::optional<int32_t> sample) = 0;
  virtual void Abandon() = 0;
  virtual SchedulerView View() const = 0;
  virtual void Progress(std::vector<RowProgress>& progress) const = 0;
  virtual bool idle() const = 0;
};

/// Makes the subject of a history; `freed` is the pool's free observer.
using SubjectFactory = std::function<std::unique_ptr<SchedulerSubject>(
    const HistorySetup& setup, PagePool::FreeObserver freed)>;

/// A subject of a scheduler class and its pool class.
template <typename PoolType, typename SchedulerType>
class SubjectOf final : public SchedulerSubject {
 public:
  /// `more`: what the pool's constructor takes after its shape.
  template <typename... PoolArguments>
  SubjectOf(const HistorySetup& setup, PagePool::FreeObserver freed, PoolArguments... more)
      : pool_(setup.num_pages, setup.page_size, more...), scheduler_(setup.scheduler, pool_) {
    pool_.set_free_observer(std::move(freed));
  }
  ~SubjectOf() override { pool_.set_free_observer({}); }

  Status Submit(Request request) override { return scheduler_.Submit(std::move(request)); }
  const StepPlan& Next() override { return scheduler_.Next(); }
  std::span<const TokenEvent> Commit(const StepResult& result) override {
    return scheduler_.Commit(result);
  }
  bool End(RequestId id, std::optional<int32_t> sample) override {
    return sample ? scheduler_.End(id, *sample) : scheduler_.End(id);
  }
  void Abandon() override { scheduler_.Abandon(); }
  SchedulerView View() const override {
    return {.waiting = scheduler_.waiting(),
            .running = scheduler_.running(),
            .in_flight = scheduler_.in_flight(),
            .free_pages = pool_.free_pages(),
            .integrity = pool_.CheckIntegrity()};
  }
  void Progress(std::vector<RowProgress>& progress) const override {
    scheduler_.Progress(progress);
  }
  bool idle() const override { return scheduler_.idle(); }

 private:
  PoolType pool_;
  SchedulerType scheduler_;
};

/// The engine's own Scheduler and PagePool.
std::unique_ptr<SchedulerSubject> MakeRealSubject(const HistorySetup& setup,
                                                  PagePool::FreeObserver freed);

}  // namespace decant
