# Writes into OUTPUT the scheduler and the pool of SOURCE_DIR once more, in namespace decant::mutated and with the faults
# below in them, each asleep until a pool's `mutation` names it. A piece of source that is not found exactly once ends
# the build: the list follows the sources.
cmake_minimum_required(VERSION 3.25)

function(read_source name file)
  file(READ ${SOURCE_DIR}/${file} text)
  set(${name} "${text}" PARENT_SCOPE)
endfunction()

# replace(SOURCE old new): in the text named SOURCE, where `old` stands once.
function(replace source old new)
  set(text "${${source}}")
  string(FIND "${text}" "${old}" first)
  string(FIND "${text}" "${old}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "src/sim/mutate_sources.cmake: not exactly once in ${source}: ${old}")
  endif()
  string(REPLACE "${old}" "${new}" text "${text}")
  set(${source} "${text}" PARENT_SCOPE)
endfunction()

# Cuts from where `begin` stands to where `end` does.
function(cut source begin end)
  set(text "${${source}}")
  string(FIND "${text}" "${begin}" cut_begin)
  string(FIND "${text}" "${end}" cut_end)
  if(cut_begin EQUAL -1 OR cut_end LESS cut_begin)
    message(FATAL_ERROR "src/sim/mutate_sources.cmake: not found in ${source}: ${begin} ... ${end}")
  endif()
  string(SUBSTRING "${text}" 0 ${cut_begin} head)
  string(SUBSTRING "${text}" ${cut_end} -1 tail)
  set(${source} "${head}${tail}" PARENT_SCOPE)
endfunction()

# How code of each text asks for the mutation.
set(scheduler_mutation "pool_.mutation")
set(pool_mutation "mutation")

# Another expression in place of `old`.
function(mutate_expression source mutation old new)
  replace(${source} "${old}" "(${${source}_mutation} == Mutation::${mutation} ? (${new}) : (${old}))")
  set(${source} "${${source}}" PARENT_SCOPE)
endfunction()

# Other statements in place of `old`.
function(mutate_statement source mutation old new)
  replace(${source} "${old}" "if (${${source}_mutation} == Mutation::${mutation}) {\n${new}\n} else {\n${old}\n}")
  set(${source} "${${source}}" PARENT_SCOPE)
endfunction()

read_source(scheduler sched/scheduler.cc)
read_source(scheduler_header sched/scheduler.h)
read_source(pool cache/page_pool.cc)
read_source(pool_header cache/page_pool.h)

# --- Pages ---
mutate_expression(scheduler kFreePagesEarly [[row->free_at <= committed_]] [[row->free_at <= committed_ + 1]])
mutate_statement(pool kFreeSharedPages [[if (--holders_[page] > 0) ++still_held;]] [[--holders_[page];]])
# CheckIntegrity is made to overlook it: those who hold the page must be noticed by what plans show.
mutate_statement(pool kPageTwice [[Take(own, *held);]] [[Take(own, *held); held->back() = leases_.front().back();]])
replace(pool [[Status PagePool::CheckIntegrity() const {]]
  "Status PagePool::CheckIntegrity() const {\n  if (mutation == Mutation::kPageTwice) return {};")
mutate_statement(pool kLosePage [[free_.insert(free_.end(), freed.rbegin(), freed.rend());]]
  [[free_.insert(free_.end(), freed.rbegin() + (freed.size() > 2 ? 1 : 0), freed.rend());]])
mutate_statement(scheduler kKeepPagesOfFailed [[for (std::optional<Row>& row : rows_) row.reset();]]
  [[for (std::optional<Row>& row : rows_) { if (row && !row->ended) row.reset(); }]])
mutate_expression(pool kForgetRoundingOfOne [[Narrow<int32_t>(CeilDiv<int64_t>(tokens, page_size_))]]
  [[Narrow<int32_t>(CeilDiv<int64_t>(std::max<int64_t>(tokens - 1, 1), page_size_))]])
mutate_expression(pool kForgetRounding [[CeilDiv<int64_t>(tokens, page_size_)]] [[std::max<int64_t>(tokens / page_size_, 1)]])
mutate_expression(scheduler kReserveForPrompt [[prompt_len + request.max_new_tokens]] [[prompt_len]])

# --- Admission ---
mutate_statement(scheduler kAdmitOutOfOrder [[if (!leases) return;]]
  [[if (!leases) { waiting_.splice(waiting_.end(), waiting_, waiting_.begin()); return; }]])
mutate_expression(scheduler kLetHugeWait [[pages > pool_.num_pages()]] [[false]])
mutate_expression(scheduler kTakeIdTwice [[holds_row || waiting_by_id_.contains(id)]] [[holds_row]])
mutate_expression(scheduler kCountEndedSamples [[PagesOf(group->request, Narrow<int32_t>(group->samples.size()))]]
  [[PagesOf(group->request, group->request.samples)]])

# --- Steps ---
mutate_statement(scheduler kOneRowMore [[rows_.resize(config.max_batch);]] [[rows_.resize(config.max_batch + 1);]])
mutate_expression(scheduler kExceedChunk [[chunk_tokens - plan.prompt_tokens]] [[chunk_tokens]])
mutate_statement(scheduler kYoungestFirst [[for (const int32_t index : running_) PlanRow(index, chunk_tokens, plan);]]
  [[for (auto index = running_.rbegin(); index != running_.rend(); ++index) PlanRow(*index, chunk_tokens, plan);]])
mutate_expression(scheduler kDecodeAfterPrompts [[row.samples_planned < request.max_new_tokens]]
  [[row.samples_planned < request.max_new_tokens && plan.prompt_tokens == 0]])
mutate_expression(scheduler kReadSharedEarly [[plan.step < group.shared_ready]] [[false]])

# --- Ends and tokens ---
mutate_statement(scheduler kDropCancel [[rows_[index]->ended = true;]] [[if (rows_[index]->samples_planned > 0) rows_[index]->ended = true;]])
mutate_statement(scheduler kDropCancelInQueue [[waiting_.erase(waiting->second);]] [[]])
mutate_expression(scheduler kCancelAllInQueue [[samples.size() > 1]] [[samples.size() > 1 && samples.front() != sample]])
mutate_expression(scheduler kMissBudget [[row.tokens_committed == request.max_new_tokens]] [[false]])
mutate_expression(scheduler kTokenAfterEnd [[!row.ended]] [[true]])
mutate_expression(scheduler kMissEndToken
  [[std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end()]]
  [[!request.stop_tokens.empty() && request.stop_tokens.front() == token]])
mutate_expression(scheduler kRepeatDraw [[static_cast<uint64_t>(row.samples_planned)]] [[static_cast<uint64_t>(row.tokens_committed)]])
mutate_expression(scheduler kShareSeed [[SampleSeed(group->request.sampling.seed, sample)]] [[group->request.sampling.seed]])
mutate_expression(scheduler kProgressOfEnded [[!row || row->ended]] [[!row]])

# --- The copies' own names ---
replace(pool_header "  PagePool(int32_t num_pages, int32_t page_size);"
  "  PagePool(int32_t num_pages, int32_t page_size);
  PagePool(int32_t num_pages, int32_t page_size, Mutation fault) : PagePool(num_pages, page_size) { mutation = fault; }
  Mutation mutation = Mutation::kNone;")
replace(pool_header "#include \"base/status.h\"" "#include \"base/status.h\"\n#include \"sim/mutation.h\"")
cut(scheduler_header "struct SchedulerConfig {" "/// How far a sample that holds a row is.")
cut(scheduler_header "struct RowProgress {" "/// Decides what each step computes")
replace(scheduler_header "#include \"cache/page_pool.h\"" "#include \"sched/scheduler.h\"\n#include \"sim/mutated_page_pool.h\"")
cut(scheduler "Status ValidateSchedulerConfig" "Scheduler::Scheduler(")
replace(scheduler "#include \"sched/scheduler.h\"" "#include \"sim/mutated_scheduler.h\"")
replace(pool "#include \"cache/page_pool.h\"" "#include \"sim/mutated_page_pool.h\"")
foreach(source scheduler scheduler_header pool pool_header)
  replace(${source} "\nnamespace decant {" "\nnamespace decant::mutated {")
endforeach()

file(WRITE ${OUTPUT}/mutated_scheduler.cc "${scheduler}")
file(WRITE ${OUTPUT}/mutated_scheduler.h "${scheduler_header}")
file(WRITE ${OUTPUT}/mutated_page_pool.cc "${pool}")
file(WRITE ${OUTPUT}/mutated_page_pool.h "${pool_header}")
