# What every target shares, and the three ways to declare one: decant_library, decant_test, decant_benchmark.

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

# decant_library(NAME SOURCES a.cc ... DEPS decant_base ...)
function(decant_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC decant_options ${ARG_DEPS})
endfunction()

# decant_test(NAME SOURCES a_test.cc ... DEPS decant_x ... [LABELS fast] [TIMEOUT seconds])
# LABELS fast: the test also runs under the sanitizers.
function(decant_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT DECANT_TESTS)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
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

# decant_benchmark(NAME SOURCES a_benchmark.cc ... DEPS decant_x ...)
function(decant_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT DECANT_BENCHMARKS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark_main)
endfunction()
