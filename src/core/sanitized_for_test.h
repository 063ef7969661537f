// Whether a sanitizer watches: memory is not the C library's then, and everything is slow, so that
// tests of many random cases take a tenth of them.
#pragma once

namespace weir {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif !defined(__has_feature)
inline constexpr bool kSanitized = false;
#else
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#endif

}  // namespace weir
