# FlashAttention 2.8.3's paged split-KV kernel, compiled from its source archive on PyPI, without PyTorch. To be included
# where DECANT_HAS_CUDA. Sets DECANT_HAS_FLASH_ATTENTION and, if so, declares decant_flash_attention (a static library of
# the instances in use: head dimensions 64 and 128, fp16 and bf16, queries of one token and causal ones of several). Nothing of the library lies in
# this repository; the archive goes into the build folder and is checked by its SHA-256.

set(DECANT_FLASH_ATTENTION "AUTO" CACHE STRING "FlashAttention's decode kernel: AUTO (where its source can be had), ON, OFF")
set_property(CACHE DECANT_FLASH_ATTENTION PROPERTY STRINGS AUTO ON OFF)
set(DECANT_FLASH_ATTENTION_SOURCE "" CACHE PATH "Unpacked flash-attn 2.8.3 source archive; empty: pip downloads it")

if(NOT DECANT_FLASH_ATTENTION MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DECANT_FLASH_ATTENTION is '${DECANT_FLASH_ATTENTION}'; allowed: AUTO, ON, OFF")
endif()

set(DECANT_FLASH_VERSION "2.8.3.post2")
set(DECANT_FLASH_SHA256 d0f9f0b08a986cdeadbffcf5ec8b3a8f514366c68ad1853d3ab061bc83cc340b)

# Downloads ARCHIVE with pip, as pip is configured (index, mirror, proxy, certificates); pip checks the SHA-256 before it
# opens the archive. Sets REASON to why that failed, or to nothing.
function(decant_download_flash_attention archive reason)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(NOT Python3_FOUND)
    set(${reason} "no Python 3 to download it with" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(folder ${archive} DIRECTORY)
  file(WRITE ${folder}/requirements.txt "flash-attn==${DECANT_FLASH_VERSION} --hash=sha256:${DECANT_FLASH_SHA256}\n")
  message(STATUS "FlashAttention: downloading flash-attn ${DECANT_FLASH_VERSION} with pip")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/cmake/flash_attention/metadata_only
            PYTHONDONTWRITEBYTECODE=1 SETUPTOOLS_USE_DISTUTILS=stdlib ${Python3_EXECUTABLE} -m pip download --no-deps
            --no-binary flash-attn --use-pep517 --no-build-isolation --require-hashes --requirement
            ${folder}/requirements.txt --dest ${folder} --retries 1 --timeout 20 --disable-pip-version-check
    OUTPUT_FILE ${folder}/pip.log ERROR_FILE ${folder}/pip.log TIMEOUT 180 RESULT_VARIABLE result)
  if(NOT result EQUAL 0 OR NOT EXISTS ${archive})
    set(${reason} "pip could not download it, see ${folder}/pip.log" PARENT_SCOPE)
    return()
  endif()
  set(${reason} "" PARENT_SCOPE)
endfunction()

# Sets DECANT_FLASH_SOURCE to the folder with csrc/, or DECANT_FLASH_MISSING to the reason why there is none.
function(decant_find_flash_attention)
  set(DECANT_FLASH_MISSING "" PARENT_SCOPE)
  if(DECANT_FLASH_ATTENTION STREQUAL "OFF")
    set(DECANT_FLASH_MISSING "DECANT_FLASH_ATTENTION=OFF" PARENT_SCOPE)
    return()
  endif()
  if(DECANT_FLASH_ATTENTION_SOURCE)
    foreach(needed csrc/flash_attn/src/flash_fwd_launch_template.h csrc/cutlass/include/cutlass/cutlass.h)
      if(NOT EXISTS ${DECANT_FLASH_ATTENTION_SOURCE}/${needed})
        message(FATAL_ERROR "DECANT_FLASH_ATTENTION_SOURCE is '${DECANT_FLASH_ATTENTION_SOURCE}', which has no ${needed}")
      endif()
    endforeach()
    set(DECANT_FLASH_SOURCE ${DECANT_FLASH_ATTENTION_SOURCE} PARENT_SCOPE)
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/flash-attention)
  set(source ${folder}/flash_attn-${DECANT_FLASH_VERSION})
  set(archive ${source}.tar.gz)
  set(unpacked ${source}/unpacked-${DECANT_FLASH_SHA256})
  if(NOT EXISTS ${unpacked})
    if(NOT EXISTS ${archive})
      decant_download_flash_attention(${archive} reason)
      if(reason)
        set(DECANT_FLASH_MISSING ${reason} PARENT_SCOPE)
        return()
      endif()
    endif()
    file(SHA256 ${archive} found)
    if(NOT found STREQUAL DECANT_FLASH_SHA256)
      set(DECANT_FLASH_MISSING "${archive} has SHA-256 ${found}, not ${DECANT_FLASH_SHA256}" PARENT_SCOPE)
      return()
    endif()
    file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${folder} PATTERNS */csrc/flash_attn/* */csrc/cutlass/include/*
                                                                         */LICENSE)
    file(TOUCH ${unpacked})
  endif()
  set(DECANT_FLASH_SOURCE ${source} PARENT_SCOPE)
endfunction()

decant_find_flash_attention()
if(DECANT_FLASH_MISSING)
  if(DECANT_FLASH_ATTENTION STREQUAL "ON")
    message(FATAL_ERROR "DECANT_FLASH_ATTENTION=ON: ${DECANT_FLASH_MISSING}")
  endif()
  message(STATUS "FlashAttention: left out (${DECANT_FLASH_MISSING}); the decode kernel 'flash' will not be there")
  set(DECANT_HAS_FLASH_ATTENTION OFF)
  return()
endif()
set(DECANT_HAS_FLASH_ATTENTION ON)

# The library has nothing of its own for sm_86 or sm_90a: machine code for sm_80 runs on every 8.x.
set(DECANT_FLASH_ARCHITECTURES ${DECANT_CUDA_ARCHITECTURES})
list(TRANSFORM DECANT_FLASH_ARCHITECTURES REPLACE "^8[0-9]" "80")
list(TRANSFORM DECANT_FLASH_ARCHITECTURES REPLACE "^([0-9]+)[af]" "\\1")
list(REMOVE_DUPLICATES DECANT_FLASH_ARCHITECTURES)
message(STATUS "FlashAttention: ${DECANT_FLASH_SOURCE} for ${DECANT_FLASH_ARCHITECTURES}")

set(DECANT_FLASH_INSTANCES)
foreach(kind decode prompt)
  set(DECANT_FLASH_CAUSAL false) # one query sees all there is
  if(kind STREQUAL "prompt")
    set(DECANT_FLASH_CAUSAL true)
  endif()
  foreach(DECANT_FLASH_ELEMENT half_t bfloat16_t)
    foreach(DECANT_FLASH_HEAD_DIM 64 128)
      set(instance ${PROJECT_BINARY_DIR}/flash-attention/${kind}_${DECANT_FLASH_ELEMENT}_${DECANT_FLASH_HEAD_DIM}.cu)
      configure_file(${PROJECT_SOURCE_DIR}/cmake/flash_attention/instance.cu.in ${instance} @ONLY)
      list(APPEND DECANT_FLASH_INSTANCES ${instance})
    endforeach()
  endforeach()
endforeach()

add_library(decant_flash_attention STATIC ${DECANT_FLASH_INSTANCES})
set_target_properties(decant_flash_attention PROPERTIES CUDA_ARCHITECTURES "${DECANT_FLASH_ARCHITECTURES}"
                                                        CUDA_STANDARD 17)
# Each takes up to 3.5 GB of memory to compile: two at a time, however many processors there are.
set_property(GLOBAL APPEND PROPERTY JOB_POOLS decant_flash=2)
set_target_properties(decant_flash_attention PROPERTIES JOB_POOL_COMPILE decant_flash)
target_include_directories(
  decant_flash_attention SYSTEM
  PUBLIC ${PROJECT_SOURCE_DIR}/cmake/flash_attention/stand_in ${DECANT_FLASH_SOURCE}/csrc/flash_attn/src
         ${DECANT_FLASH_SOURCE}/csrc/cutlass/include
  PRIVATE ${PROJECT_SOURCE_DIR}/cmake/flash_attention)
target_compile_definitions(
  decant_flash_attention PRIVATE FLASHATTENTION_DISABLE_ALIBI FLASHATTENTION_DISABLE_DROPOUT FLASHATTENTION_DISABLE_LOCAL
                                 FLASHATTENTION_DISABLE_SOFTCAP FLASHATTENTION_DISABLE_UNEVEN_K)
# As the library's own setup.py compiles it, and without its warnings.
target_compile_options(decant_flash_attention PRIVATE -w -O3 --use_fast_math --expt-relaxed-constexpr
                                                      --expt-extended-lambda)
target_link_libraries(decant_flash_attention PUBLIC CUDA::cudart_static)
