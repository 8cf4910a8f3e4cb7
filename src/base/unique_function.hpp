// SPDX-License-Identifier: Apache-2.0
#pragma once
// A callable that is moved, called once or more, and never copied: std::move_only_function of C++23.
#include <memory>
#include <type_traits>
#include <utility>

namespace tranche {

template <class Signature>
class UniqueFunction;

template <class Return, class... Arguments>
class UniqueFunction<Return(Arguments...)> {
 public:
  UniqueFunction() = default;
  template <class Callable>
    requires(!std::is_same_v<std::decay_t<Callable>, UniqueFunction>)
  UniqueFunction(Callable&& callable)  // NOLINT(google-explicit-constructor): a lambda is one already.
      : held_(std::make_unique<Holder<std::decay_t<Callable>>>(std::forward<Callable>(callable))) {}

  explicit operator bool() const { return held_ != nullptr; }
  Return operator()(Arguments... arguments) { return held_->call(std::forward<Arguments>(arguments)...); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Return call(Arguments... arguments) = 0;
  };
  template <class Callable>
  struct Holder final : Base {
    explicit Holder(Callable callable) : callable_(std::move(callable)) {}
    Return call(Arguments... arguments) override { return callable_(std::forward<Arguments>(arguments)...); }
    Callable callable_;
  };
  std::unique_ptr<Base> held_;
};

}  // namespace tranche
