// Which variants of FlashAttention's split-KV kernel are compiled. The library chooses among
// template instances at run time with its BOOL_SWITCH; decoding from a paged cache meets one side
// of most of them (lengths always come from memory, keys and values are in the cache already), and
// leaving out the other sides leaves 2 of 6 kernels to compile and to carry. To be included before
// the library's launch template.
#pragma once

#include "static_switch.h"

#undef BOOL_SWITCH
#define BOOL_SWITCH(condition, name, ...) DECANT_SWITCH_##name(condition, __VA_ARGS__)

#define DECANT_ALWAYS_FALSE(name, ...)  \
  [&] {                                 \
    constexpr static bool name = false; \
    return __VA_ARGS__();               \
  }()

#define DECANT_SWITCH_IsEvenMNConst(condition, ...) DECANT_ALWAYS_FALSE(IsEvenMNConst, __VA_ARGS__)
#define DECANT_SWITCH_Append_KV(condition, ...) DECANT_ALWAYS_FALSE(Append_KV, __VA_ARGS__)
#define DECANT_SWITCH_ReturnSoftmaxConst(condition, ...) \
  DECANT_ALWAYS_FALSE(ReturnSoftmaxConst, __VA_ARGS__)

#define DECANT_SWITCH_Split(condition, ...) \
  [&] {                                     \
    if (condition) {                        \
      constexpr static bool Split = true;   \
      return __VA_ARGS__();                 \
    } else {                                \
      constexpr static bool Split = false;  \
      return __VA_ARGS__();                 \
    }                                       \
  }()
