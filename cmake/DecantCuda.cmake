# DECANT_CUDA: whether the CUDA backend is part of the build. AUTO takes it in where a CUDA compiler works and says so
# where none does; ON fails without one. Sets DECANT_HAS_CUDA and declares
#   decant_cuda_features   compile definition DECANT_HAS_CUDA=0 or 1, for the few files that choose a backend
#   decant_cuda_options    what every CUDA source of ours is compiled with; DECANT_RACECHECK adds to it
#   decant_cuda_library    decant_library for .cu files and .cc files that call the CUDA runtime
# The runtime is linked statically and looks for the driver when it is first called, and cuBLASLt is opened by name at
# run time: a program with the backend starts on machines that have no CUDA at all.

set(DECANT_CUDA_ARCHITECTURES "80-real;86-real;90a-real;90-virtual"
    CACHE STRING "GPU architectures, as CMAKE_CUDA_ARCHITECTURES; one alone (90a-real) builds fastest")

if(NOT DECANT_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DECANT_CUDA is '${DECANT_CUDA}'; allowed: AUTO, ON, OFF")
endif()

# Sets DECANT_CUDA_MISSING to the reason why there is no CUDA backend, or to nothing.
function(decant_find_cuda)
  if(NOT DEFINED ENV{CUDACXX} AND NOT CMAKE_CUDA_COMPILER)
    find_program(DECANT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin
                 DOC "CUDA compiler, where neither CUDACXX nor CMAKE_CUDA_COMPILER names one")
    if(NOT DECANT_NVCC)
      set(DECANT_CUDA_MISSING "no nvcc in PATH, CUDACXX or /usr/local/cuda" PARENT_SCOPE)
      return()
    endif()
    set(ENV{CUDACXX} ${DECANT_NVCC})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(DECANT_CUDA_MISSING "nvcc does not work with this host compiler" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(compiler ${CMAKE_CUDA_COMPILER} REALPATH)
  get_filename_component(toolkit ${compiler}/../.. ABSOLUTE)
  find_path(DECANT_CUBLASLT_INCLUDE cublasLt.h HINTS ${toolkit} ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
            PATH_SUFFIXES include targets/x86_64-linux/include
            DOC "Folder of cublasLt.h")
  if(NOT DECANT_CUBLASLT_INCLUDE)
    set(DECANT_CUDA_MISSING "nvcc is there, but not cublasLt.h" PARENT_SCOPE)
    return()
  endif()
  set(DECANT_CUDA_MISSING "" PARENT_SCOPE)
endfunction()

if(DECANT_CUDA STREQUAL "OFF")
  set(DECANT_CUDA_MISSING "DECANT_CUDA=OFF")
elseif(DECANT_CUDA STREQUAL "AUTO" AND DECANT_SANITIZE)
  set(DECANT_CUDA_MISSING "sanitizers see nothing of it; DECANT_CUDA=ON builds it all the same")
else()
  decant_find_cuda()
endif()

add_library(decant_cuda_features INTERFACE)
if(DECANT_CUDA_MISSING)
  if(DECANT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DECANT_CUDA=ON: ${DECANT_CUDA_MISSING}")
  endif()
  message(STATUS "CUDA backend: left out (${DECANT_CUDA_MISSING})")
  set(DECANT_HAS_CUDA OFF)
  target_compile_definitions(decant_cuda_features INTERFACE DECANT_HAS_CUDA=0)
  return()
endif()

set(DECANT_HAS_CUDA ON)
target_compile_definitions(decant_cuda_features INTERFACE DECANT_HAS_CUDA=1)
set(CMAKE_CUDA_ARCHITECTURES ${DECANT_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc has C++20 since 12.0
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8) # kernels take a tenth of the room
  string(APPEND CMAKE_CUDA_FLAGS " --compress-mode=size")
endif()
find_package(CUDAToolkit REQUIRED)
message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${DECANT_CUDA_ARCHITECTURES}")

# fmt 9 turns constexpr off for nvcc, half of it, and has a long double that nvcc warns of.
add_library(decant_cuda_options INTERFACE)
target_include_directories(decant_cuda_options SYSTEM INTERFACE ${DECANT_CUBLASLT_INCLUDE})
target_compile_options(
  decant_cuda_options
  INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--expt-relaxed-constexpr;--Werror=all-warnings;-diag-suppress=20208;-DFMT_USE_CONSTEXPR=1;-Xcompiler=-Wall,-Wextra,-Wshadow,-Werror,-ffp-contract=off>"
)
if(DECANT_RACECHECK)
  target_compile_definitions(decant_cuda_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:DECANT_RACECHECK>")
endif()
target_link_libraries(decant_cuda_options INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})

# decant_cuda_library(NAME SOURCES a.cu b.cc ... DEPS decant_base ...)
function(decant_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  decant_library(${name} SOURCES ${ARG_SOURCES} DEPS decant_cuda_options ${ARG_DEPS})
endfunction()
