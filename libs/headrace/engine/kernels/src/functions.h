// Activation functions and their building blocks, lane by lane. All of them propagate NaN.

#pragma once

#include "abi.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

// Returns `a`, which must not be negative, with the sign of `x`.
inline Floats with_sign_of(Floats x, Floats a) { return as_floats(as_ints(a) | (as_ints(x) & spread(INT32_MIN))); }

// c[0] + c[1] x + c[2] x^2 + ...
template <int kCount> inline Floats polynomial(const float (&c)[kCount], Floats x) {
    Floats sum = spread(c[kCount - 1]);
    for (int i = kCount - 2; i >= 0; --i) sum = fma(sum, x, spread(c[i]));
    return sum;
}

// tanh(x) within 3 units in the last place: near zero a polynomial in x^2 (weighted least squares at Chebyshev nodes),
// else (1 - e) / (1 + e) with e = exp(-2 |x|).
inline Floats hyperbolic_tangent(Floats x) {
    constexpr float kNear[] = {1.0f,
                               -3.333333064e-01f,
                               1.333320598e-01f,
                               -5.394696623e-02f,
                               2.170222586e-02f,
                               -8.181561855e-03f,
                               2.146901565e-03f};
    const Floats size = magnitude(x);
    const Floats one = spread(1.0f);
    const Floats e = exponential(size * spread(-2.0f));
    return choose(size, spread(0.625f), with_sign_of(x, (one - e) / (one + e)), x * polynomial(kNear, x * x));
}

// erf(x) within 1e-7: near zero a polynomial in x^2, else 1 - exp(q(|x|)) with q fitted to ln(erfc), and 1
// beyond 4.
inline Floats error_function(Floats x) {
    constexpr float kNear[] = {1.128379167e+00f, -3.761263855e-01f, 1.128378344e-01f, -2.686547546e-02f,
                               5.221138521e-03f, -8.485435931e-04f, 1.127471341e-04f, -9.689663373e-06f};
    constexpr float kFar[] = {1.914765407e-04f, -1.129593902e+00f, -6.331905752e-01f, -1.084488333e-01f,
                              2.522661769e-02f, -4.211110695e-03f, 4.426069705e-04f,  -2.179026398e-05f};
    const Floats size = magnitude(x);
    const Floats far = spread(1.0f) - exponential(polynomial(kFar, smaller(size, spread(4.0f))));
    return choose(size, spread(1.0f), with_sign_of(x, far), x * polynomial(kNear, x * x));
}

// x * sigmoid(x).
inline Floats silu(Floats x) { return x / (spread(1.0f) + exponential(spread(0.0f) - x)); }

// x * Phi(x), with the cumulative normal distribution (Hendrycks and Gimpel, 2016).
inline Floats gelu(Floats x) { return spread(0.5f) * x * (spread(1.0f) + error_function(x * spread(0.70710678f))); }

// The approximation of gelu by tanh that its authors give.
inline Floats gelu_tanh(Floats x) {
    const Floats inner = spread(0.79788456f) * fma(spread(0.044715f) * x * x, x, x);
    return spread(0.5f) * x * (spread(1.0f) + hyperbolic_tangent(inner));
}

// The gates of gpt-oss (Agarwal et al., 2025): x * sigmoid(1.702 x) of x up to a limit, times a factor within the
// limit, plus one.
constexpr float kSwishLimit = 7.0f;
inline Floats clamped_swish(Floats x) {
    const Floats low = smaller(spread(kSwishLimit), x);
    return low / (spread(1.0f) + exponential(low * spread(-1.702f)));
}

// Returns what gates of `function` multiply, from the products of a block's inputs.
inline Floats raised(int32_t function, Floats x) {
    if (function != kClampedSwish) return x;
    return smaller(spread(kSwishLimit), larger(spread(-kSwishLimit), x)) + spread(1.0f);
}

// cap * tanh(x / cap): about x for small numbers, never beyond +-cap (Gemma 2).
inline Floats soft_cap(Floats x, float cap) { return hyperbolic_tangent(x / spread(cap)) * spread(cap); }

// Calls body(function) with the function that `name`, a Function, stands for. Only kSoftCap uses `cap`.
template <typename Body> inline void with_function(int32_t name, float cap, const Body &body) {
    switch (name) {
        case kSilu: return body([](Floats x) { return silu(x); });
        case kGelu: return body([](Floats x) { return gelu(x); });
        case kGeluTanh: return body([](Floats x) { return gelu_tanh(x); });
        case kRelu: return body([](Floats x) { return choose(spread(0.0f), x, spread(0.0f), x); });
        case kSoftCap: return body([=](Floats x) { return soft_cap(x, cap); });
        case kClampedSwish: return body([](Floats x) { return clamped_swish(x); });
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
