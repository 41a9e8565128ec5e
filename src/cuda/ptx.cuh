/* ptx.cuh - each instruction that CUDA C has no name for, wrapped once.
 *
 * Shared-memory addresses are 32-bit. What orders memory is volatile and clobbers it; the
 * arithmetic is neither, so that the compiler may overlap it with loads. A read that is neither
 * takes its address from ring_wait or ring_stage, which keeps it after the wait, and gives a value
 * to ring_release, which keeps it before the release.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PTX_CUH
#define GLYD_CUDA_PTX_CUH

#include <cuda.h>
#include <stdint.h>

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Keep a value in its register: the compiler would otherwise compute cheap-looking ones (an address
 * in shared memory, a kernel's argument) again where they are used, at tens of cycles each. */
static __device__ __forceinline__ void keep(uint32_t &v)
{
    asm volatile("" : "+r"(v));
}

static __device__ __forceinline__ void keep(int &v)
{
    asm volatile("" : "+r"(v));
}

/* d += a b: 16 x 8 results of 16 columns. */
static __device__ __forceinline__ void mma_m16n8k16(float *d, const uint32_t *a, uint32_t b0,
                                                    uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},"
        "{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices of 16-bit values; lane 8i + r gives the address of row r of matrix i. */
static __device__ __forceinline__ void load_matrix_x4(uint32_t *d, uint32_t address)
{
    asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(address));
}

/* As load_matrix_x4 in the other direction, each matrix transposed. */
static __device__ __forceinline__ void store_matrix_x4_transposed(uint32_t address,
                                                                  const uint32_t *s)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0],{%1,%2,%3,%4};"
                 :
                 : "r"(address), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3])
                 : "memory");
}

/* 16 bytes that are read once: past the first-level cache. */
static __device__ __forceinline__ uint4 load_once(const uint4 *p)
{
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3},[%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(p));
    return v;
}

/* Write 16 bytes, in one piece: where the compiler does not see that they are aligned, or writes
 * less beside them, it cuts them up. */
static __device__ __forceinline__ void store_16(void *to, uint4 v)
{
    asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};"
                 :
                 : "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

/* Start to copy 16 bytes to shared memory, zeros where they are not `there`. */
static __device__ __forceinline__ void copy_async_16(uint32_t to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;"
                 :
                 : "r"(to), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

/* The copies since the last commit are a group. */
static __device__ __forceinline__ void copy_async_commit(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Wait for all groups of this thread's copies but the last PENDING. */
template <int PENDING> static __device__ __forceinline__ void copy_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
}

/* --- barriers in shared memory (sm_90) --- */

static __device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" : : "r"(barrier), "r"(arrivals));
}

/* Make initialised barriers visible to the copy engine and to the cluster. */
static __device__ __forceinline__ void barrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

static __device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;"
                 :
                 : "r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" : : "r"(barrier) : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done,[%0],%1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}"
                 :
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

/* Whether a wait would be over at once. */
static __device__ __forceinline__ bool barrier_test(uint32_t barrier, uint32_t parity)
{
    uint32_t over;
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 done,[%1],%2;\n"
                 "selp.u32 %0,1,0,done;\n"
                 "}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return over != 0;
}

/* The address of a stage that is full, for reads that have to come after. */
static __device__ __forceinline__ uint32_t ring_stage(uint32_t stage)
{
    asm volatile("" : "+r"(stage) : : "memory");
    return stage;
}

/* Wait until a stage is full and give back its address. */
static __device__ __forceinline__ uint32_t ring_wait(uint32_t barrier, uint32_t parity,
                                                     uint32_t stage)
{
    barrier_wait(barrier, parity);
    return ring_stage(stage);
}

/* Say that this warp has read all it needs of a stage; `read` is a value read last. */
static __device__ __forceinline__ void ring_release(uint32_t barrier, uint32_t read, int lane)
{
    asm volatile("" : : "r"(read) : "memory");
    __syncwarp();
    if (lane == 0)
        barrier_arrive(barrier);
}

/* Wait for the other warps of a group of `threads` threads of the CTA. */
static __device__ __forceinline__ void group_sync(int id, int threads)
{
    asm volatile("barrier.cta.sync %0,%1;" : : "r"(id), "r"(threads) : "memory");
}

/* Arrive there without waiting. */
static __device__ __forceinline__ void group_arrive(int id, int threads)
{
    asm volatile("barrier.cta.arrive %0,%1;" : : "r"(id), "r"(threads) : "memory");
}

/* --- the copy engine (sm_90) --- */

/* Copy a box of a two-dimensional tensor whose first element is (column, row). */
static __device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap *map, int column,
                                                int row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0],[%1,{%2,%3}],[%4];"
                 :
                 : "r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

/* --- the kernels before and after this one in its stream (sm_90) --- */

/* Wait until those before have ended and what they wrote can be read. */
static __device__ __forceinline__ void grid_wait(void)
{
    asm volatile("griddepcontrol.wait;" : : : "memory");
}

/* Let the next one start, as far as there is room, once every CTA has said so. */
static __device__ __forceinline__ void grid_let_next(void)
{
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
}

/* --- clusters (sm_90) --- */

static __device__ __forceinline__ void cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;"
                 :
                 :
                 : "memory");
}

/* Arrive at another CTA's barrier, `barrier` being the address of one's own. It says that reads
 * are over and orders no writes: a release to the cluster would cost a fence of a microsecond. */
static __device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t rank)
{
    asm volatile("{\n"
                 ".reg .u32 remote;\n"
                 "mapa.shared::cluster.u32 remote,%0,%1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _,[remote];\n"
                 "}"
                 :
                 : "r"(barrier), "r"(rank)
                 : "memory");
}

/* Both, where `does`, without a branch: products in flight do not go with one. */
static __device__ __forceinline__ void barrier_arrive_if(uint32_t barrier, bool does)
{
    asm volatile("{\n"
                 ".reg .pred does;\n"
                 "setp.ne.u32 does,%1,0;\n"
                 "@does mbarrier.arrive.shared::cta.b64 _,[%0];\n"
                 "}"
                 :
                 : "r"(barrier), "r"((uint32_t)does)
                 : "memory");
}

static __device__ __forceinline__ void barrier_arrive_at_if(uint32_t barrier, uint32_t rank,
                                                            bool does)
{
    asm volatile("{\n"
                 ".reg .u32 remote;\n"
                 ".reg .pred does;\n"
                 "setp.ne.u32 does,%2,0;\n"
                 "mapa.shared::cluster.u32 remote,%0,%1;\n"
                 "@does mbarrier.arrive.shared::cluster.b64 _,[remote];\n"
                 "}"
                 :
                 : "r"(barrier), "r"(rank), "r"((uint32_t)does)
                 : "memory");
}

/* As copy_box, to the same place in each CTA of the cluster that `ranks` has a bit for, whose
 * barriers count it in. */
static __device__ __forceinline__ void copy_box_to(uint32_t to, const CUtensorMap *map, int column,
                                                   int row, uint32_t barrier, uint16_t ranks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0],[%1,{%2,%3}],[%4],%5;"
                 :
                 : "r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(ranks)
                 : "memory");
}

static __device__ __forceinline__ float load_cluster(uint32_t address, int rank)
{
    float v;
    asm volatile("{\n"
                 ".reg .u32 remote;\n"
                 "mapa.shared::cluster.u32 remote,%1,%2;\n"
                 "ld.shared::cluster.f32 %0,[remote];\n"
                 "}"
                 : "=f"(v)
                 : "r"(address), "r"(rank)
                 : "memory");
    return v;
}

/* --- products of a warpgroup (sm_90a) --- */

static __device__ __forceinline__ void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

static __device__ __forceinline__ void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

template <int PENDING> static __device__ __forceinline__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(PENDING) : "memory");
}

template <int REGISTERS> static __device__ __forceinline__ void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}

template <int REGISTERS> static __device__ __forceinline__ void registers_fewer(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}

/* Where B lies: rows of 64 bf16 (128 bytes), 8 rows an atom of 1,024 bytes, chunks of 16 bytes
 * exchanged as the copy engine's 128-byte swizzle does. */
static __device__ __forceinline__ uint64_t wgmma_operand(uint32_t address)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

#define F8(d, i)                                                                                   \
    "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3]), "+f"((d)[(i) + 4]),  \
        "+f"((d)[(i) + 5]), "+f"((d)[(i) + 6]), "+f"((d)[(i) + 7])
#define F32(d, i) F8(d, i), F8(d, (i) + 8), F8(d, (i) + 16), F8(d, (i) + 24)
#define D32_0                                                                                      \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"   \
    "%25,%26,%27,%28,%29,%30,%31"
#define D32_1                                                                                      \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"     \
    "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define D32_2                                                                                      \
    "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"     \
    "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define D32_3                                                                                      \
    "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,"  \
    "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* d += a b: 64 x N results of 16 columns; a in the registers of four warps of 16 rows. */
template <int N>
static __device__ __forceinline__ void wgmma_k16(float *d, const uint32_t *a, uint64_t b)
{
    static_assert(N == 64 || N == 128 || N == 256, "token tiles");
    if constexpr (N == 64)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" D32_0 "},"
                     "{%32,%33,%34,%35},%36,1,1,1,0;"
                     : F32(d, 0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else if constexpr (N == 128)
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" D32_0 "," D32_1 "},"
                     "{%64,%65,%66,%67},%68,1,1,1,0;"
                     : F32(d, 0), F32(d, 32)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" D32_0 "," D32_1
                     "," D32_2 "," D32_3 "},{%128,%129,%130,%131},%132,1,1,1,0;"
                     : F32(d, 0), F32(d, 32), F32(d, 64), F32(d, 96)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef F8
#undef F32
#undef D32_0
#undef D32_1
#undef D32_2
#undef D32_3

#endif
