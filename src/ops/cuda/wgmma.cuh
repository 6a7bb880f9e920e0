#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace decant {

/// Matrix instructions of a group of four warps (PTX ISA, "wgmma"; compute capability 9.0a): both
/// operands in shared memory, sums in registers. Operand rows lie as 128 bytes of 64 elements,
/// swizzled: 16-byte piece i of row r at place i ^ (r % 8), rows in order from an address that is
/// a multiple of 1024 bytes.

/// Orders earlier accesses to registers and shared memory before the products that follow.
__device__ inline void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `kPending` committed groups of products are under way.
template <int kPending>
__device__ inline void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Changes how many registers each thread of the group has ("setmaxnreg").
template <int kRegisters>
__device__ inline void GiveRegistersBack() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Describes an operand whose rows lie as above, from the row that starts at `shared`. Rows that go
/// along the sums' rows or columns (K-major): the next 16 elements are 32 bytes further, and
/// `block_stride` counts for nothing. Rows that go along the summed dimension (MN-major): each
/// `block_stride` bytes 64 more of the sums' columns; the next 16 rows are 2048 bytes further.
__device__ inline uint64_t DescribeOperand(uint32_t shared, uint32_t block_stride = 16) {
  constexpr uint64_t kRowGroupStride = 1024 >> 4;  // 8 rows, in units of 16 bytes
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>((shared & 0x3ffffU) >> 4) | uint64_t{block_stride >> 4} << 16 |
         kRowGroupStride << 32 | kSwizzle128 << 62;
}

/// One product: sums [64, kColumns] += a [64, 16] * b [kColumns, 16]^T. Thread t of the group
/// holds, of each 8 columns c, sums[4 c / 8 ...]: row 16 (t / 32) + t % 32 / 4 at columns c + 2 (t
/// % 4) and the next, then row + 8 at the same columns.
template <typename T, int kColumns>
struct GroupProduct;

// Operands by number, 16 to a name; inline assembly cannot count them itself.
#define DECANT_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define DECANT_SUMS_8(i) DECANT_SUMS_4(i), DECANT_SUMS_4(i + 4)
#define DECANT_SUMS_16(i) DECANT_SUMS_8(i), DECANT_SUMS_8(i + 8)
#define DECANT_SUMS_32(i) DECANT_SUMS_16(i), DECANT_SUMS_16(i + 16)
#define DECANT_SUMS_64(i) DECANT_SUMS_32(i), DECANT_SUMS_32(i + 32)
#define DECANT_NAMES_0 "%0,%1,%2,%3"
#define DECANT_NAMES_4 "%4,%5,%6,%7"
#define DECANT_NAMES_8 "%8,%9,%10,%11,%12,%13,%14,%15"
#define DECANT_NAMES_16 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define DECANT_NAMES_32 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define DECANT_NAMES_48 "%48,%49,%50,%51,%52,%53,%54,%55"
#define DECANT_NAMES_56 "%56,%57,%58,%59,%60,%61,%62,%63"
#define DECANT_NAMES_64 "%64,%65,%66,%67"
#define DECANT_NAMES_68 "%68,%69,%70,%71"
#define DECANT_NAMES_72 "%72,%73,%74,%75,%76,%77,%78,%79"
#define DECANT_NAMES_80 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91"
#define DECANT_NAMES_92 "%92,%93,%94,%95"
#define DECANT_NAMES_96 \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define DECANT_NAMES_112 \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define DECANT_ALL_4 DECANT_NAMES_0
#define DECANT_ALL_8 DECANT_ALL_4 "," DECANT_NAMES_4
#define DECANT_ALL_16 DECANT_ALL_8 "," DECANT_NAMES_8
#define DECANT_ALL_32 DECANT_ALL_16 "," DECANT_NAMES_16
#define DECANT_ALL_48 DECANT_ALL_32 "," DECANT_NAMES_32
#define DECANT_ALL_56 DECANT_ALL_48 "," DECANT_NAMES_48
#define DECANT_ALL_64 DECANT_ALL_56 "," DECANT_NAMES_56
#define DECANT_ALL_68 DECANT_ALL_64 "," DECANT_NAMES_64
#define DECANT_ALL_72 DECANT_ALL_68 "," DECANT_NAMES_68
#define DECANT_ALL_80 DECANT_ALL_72 "," DECANT_NAMES_72
#define DECANT_ALL_92 DECANT_ALL_80 "," DECANT_NAMES_80
#define DECANT_ALL_96 DECANT_ALL_92 "," DECANT_NAMES_92
#define DECANT_ALL_128 DECANT_ALL_96 "," DECANT_NAMES_96 "," DECANT_NAMES_112

#define DECANT_GROUP_PRODUCT(type, ptx_type, columns, names, a_name, b_name, ...)                  \
  template <>                                                                                      \
  struct GroupProduct<type, columns> {                                                             \
    __device__ static void Add(float (&sums)[columns / 2], uint64_t a, uint64_t b) {               \
      asm volatile(                                                                                \
          "{\n.reg .pred accumulate;\nsetp.eq.u32 accumulate, 0, 0;\n"                             \
          "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." ptx_type "." ptx_type " {" names \
          "}, " a_name ", " b_name ", accumulate, 1, 1, 0, 0;\n}"                                  \
          : __VA_ARGS__                                                                            \
          : "l"(a), "l"(b));                                                                       \
    }                                                                                              \
  };

#define DECANT_GROUP_PRODUCTS(type, ptx_type)                                                  \
  DECANT_GROUP_PRODUCT(type, ptx_type, 8, DECANT_ALL_4, "%4", "%5", DECANT_SUMS_4(0))          \
  DECANT_GROUP_PRODUCT(type, ptx_type, 16, DECANT_ALL_8, "%8", "%9", DECANT_SUMS_8(0))         \
  DECANT_GROUP_PRODUCT(type, ptx_type, 32, DECANT_ALL_16, "%16", "%17", DECANT_SUMS_16(0))     \
  DECANT_GROUP_PRODUCT(type, ptx_type, 64, DECANT_ALL_32, "%32", "%33", DECANT_SUMS_32(0))     \
  DECANT_GROUP_PRODUCT(type, ptx_type, 96, DECANT_ALL_48, "%48", "%49", DECANT_SUMS_32(0),     \
                       DECANT_SUMS_16(32))                                                     \
  DECANT_GROUP_PRODUCT(type, ptx_type, 112, DECANT_ALL_56, "%56", "%57", DECANT_SUMS_32(0),    \
                       DECANT_SUMS_16(32), DECANT_SUMS_8(48))                                  \
  DECANT_GROUP_PRODUCT(type, ptx_type, 128, DECANT_ALL_64, "%64", "%65", DECANT_SUMS_64(0))    \
  DECANT_GROUP_PRODUCT(type, ptx_type, 136, DECANT_ALL_68, "%68", "%69", DECANT_SUMS_64(0),    \
                       DECANT_SUMS_4(64))                                                      \
  DECANT_GROUP_PRODUCT(type, ptx_type, 144, DECANT_ALL_72, "%72", "%73", DECANT_SUMS_64(0),    \
                       DECANT_SUMS_8(64))                                                      \
  DECANT_GROUP_PRODUCT(type, ptx_type, 184, DECANT_ALL_92, "%92", "%93", DECANT_SUMS_64(0),    \
                       DECANT_SUMS_16(64), DECANT_SUMS_8(80), DECANT_SUMS_4(88))               \
  DECANT_GROUP_PRODUCT(type, ptx_type, 192, DECANT_ALL_96, "%96", "%97", DECANT_SUMS_64(0),    \
                       DECANT_SUMS_32(64))                                                     \
  DECANT_GROUP_PRODUCT(type, ptx_type, 256, DECANT_ALL_128, "%128", "%129", DECANT_SUMS_64(0), \
                       DECANT_SUMS_64(64))

DECANT_GROUP_PRODUCTS(__half, "f16")
DECANT_GROUP_PRODUCTS(__nv_bfloat16, "bf16")

#undef DECANT_GROUP_PRODUCTS
#undef DECANT_GROUP_PRODUCT
#undef DECANT_ALL_4
#undef DECANT_ALL_8
#undef DECANT_ALL_16
#undef DECANT_ALL_32
#undef DECANT_ALL_48
#undef DECANT_ALL_56
#undef DECANT_ALL_64
#undef DECANT_ALL_68
#undef DECANT_ALL_72
#undef DECANT_ALL_80
#undef DECANT_ALL_92
#undef DECANT_ALL_96
#undef DECANT_ALL_128
#undef DECANT_NAMES_0
#undef DECANT_NAMES_4
#undef DECANT_NAMES_8
#undef DECANT_NAMES_16
#undef DECANT_NAMES_32
#undef DECANT_NAMES_48
#undef DECANT_NAMES_56
#undef DECANT_NAMES_64
#undef DECANT_NAMES_68
#undef DECANT_NAMES_72
#undef DECANT_NAMES_80
#undef DECANT_NAMES_92
#undef DECANT_NAMES_96
#undef DECANT_NAMES_112
#undef DECANT_SUMS_4
#undef DECANT_SUMS_8
#undef DECANT_SUMS_16
#undef DECANT_SUMS_32
#undef DECANT_SUMS_64

}  // namespace decant
