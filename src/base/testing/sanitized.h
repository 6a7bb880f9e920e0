#pragma once

namespace decant {

/// Whether this is built with the address or the thread sanitizer, under which everything takes
/// several times as long and freed memory stays where it is. g++ says so by macros, clang by
/// features.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

}  // namespace decant
