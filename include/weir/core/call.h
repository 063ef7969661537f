// Calls anything and gives a Result, so that limiters, breakers and retries nest in any order.
//
// A callable may return Result<T>, T or void; all become Result<T>, and a Result is not wrapped a
// second time. An exception passes through. A std::expected with another error type is a T.
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include "weir/core/error.h"

namespace weir {

template <class T>
struct AsResult {
  using type = Result<T>;
};
template <class T>
struct AsResult<Result<T>> {
  using type = Result<T>;
};

template <class F>
using invoke_result_of = AsResult<std::remove_cvref_t<std::invoke_result_t<F>>>::type;

template <std::invocable F>
invoke_result_of<F> call(F&& f) {
  if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
    std::invoke(std::forward<F>(f));
    return {};
  } else {
    return std::invoke(std::forward<F>(f));
  }
}

}  // namespace weir
