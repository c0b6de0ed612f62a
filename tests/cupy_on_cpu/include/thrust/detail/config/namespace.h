// In place of Thrust's own, which wants to know NVIDIA's compiler: CuPy's complex numbers need no more of it.
#pragma once
#define THRUST_NAMESPACE_BEGIN namespace thrust {
#define THRUST_NAMESPACE_END }
#define THRUST_NS_QUALIFIER ::thrust
