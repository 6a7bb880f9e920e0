# What every target shares, and the four ways to declare one: decant_library, decant_test, decant_fuzz, decant_benchmark.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(DECANT_CCACHE ccache)
if(DECANT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DECANT_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${DECANT_CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
if(DECANT_TESTS)
  find_package(GTest REQUIRED)
endif()
if(DECANT_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

add_library(decant_options INTERFACE)
target_include_directories(decant_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
# nvcc takes other flags: decant_cuda_options.
target_compile_options(
  decant_options
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-ffp-contract=off>"
)
target_link_libraries(decant_options INTERFACE Threads::Threads fmt::fmt)
if(DECANT_SANITIZE)
  target_compile_options(
    decant_options
    INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${DECANT_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>"
  )
  target_link_options(decant_options INTERFACE -fsanitize=${DECANT_SANITIZE})
endif()

if(DECANT_FUZZERS AND NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  message(FATAL_ERROR "DECANT_FUZZERS=ON needs clang++, which brings libFuzzer (CMAKE_CXX_COMPILER is ${CMAKE_CXX_COMPILER})")
endif()
# A folder whose loops no fuzzer is to explore sets this to OFF: counting its branches would slow its tests down.
set(DECANT_FUZZ_COVERAGE ${DECANT_FUZZERS})

# decant_library(NAME SOURCES a.cc ... DEPS decant_base ...)
function(decant_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC decant_options ${ARG_DEPS})
  if(DECANT_FUZZ_COVERAGE)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
  endif()
endfunction()

# decant_test(NAME SOURCES a_test.cc ... DEPS decant_x ... [LABELS fast] [TIMEOUT seconds])
# LABELS fast: the test also runs under the sanitizers.
function(decant_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT DECANT_TESTS)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900) # for what hangs; a busy machine takes three times as long as others
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gtest_main)
  # Full optimisation of the tests' own code would take a third of their compile time and gain nothing.
  target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  target_compile_definitions(${name} PRIVATE DECANT_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             DECANT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# decant_fuzz(NAME DEPS decant_x ...)
# NAME_fuzz of NAME_fuzz.cc, a fuzzer (DECANT_FUZZERS) or a program that runs files through it; and the test
# fuzz_corpus_NAME, which runs those of tests/data/fuzz/NAME. docs/fuzzing.md.
function(decant_fuzz name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  if(NOT DECANT_TESTS)
    return()
  endif()
  add_executable(${name}_fuzz ${name}_fuzz.cc)
  target_link_libraries(${name}_fuzz PRIVATE decant_base ${ARG_DEPS})
  target_compile_options(${name}_fuzz PRIVATE $<$<CONFIG:Release>:-O1>) # as in tests
  target_compile_definitions(${name}_fuzz PRIVATE DECANT_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  set(corpus ${PROJECT_SOURCE_DIR}/tests/data/fuzz/${name})
  if(DECANT_FUZZERS)
    target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz_corpus_${name} COMMAND ${name}_fuzz -runs=0 ${corpus})
  else()
    target_link_libraries(${name}_fuzz PRIVATE decant_fuzz_replay)
    add_test(NAME fuzz_corpus_${name} COMMAND ${name}_fuzz ${corpus})
  endif()
  # A test's name is also what builds it.
  add_custom_target(fuzz_corpus_${name} DEPENDS ${name}_fuzz)
  set_tests_properties(fuzz_corpus_${name} PROPERTIES LABELS fast TIMEOUT 300)
endfunction()

# decant_benchmark(NAME SOURCES a_benchmark.cc ... DEPS decant_x ...)
function(decant_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT DECANT_BENCHMARKS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark_main)
endfunction()
