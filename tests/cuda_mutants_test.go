package tests

import (
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/cuda"
)

const second = "grid_sample_double_backward grad_output=f32[1,3,4,4,4] input=f32[1,3,4,4,4] grid=f32[1,4,4,4,3] "

// tileUnits are the files that an image's gradient takes.
const tileUnits = "grid_sample_links,grid_sample_tiles,sort"

// mutant is a mistake in one of the kernels' files, and a problem whose kernels, of some units, have it.
type mutant struct{ file, from, to, unit, text string }

// mutants are mistakes that the comparison must find.
var mutants = []mutant{
	{"dtypes.cuh", "return rintf(x)", "return roundf(x)", "quant_sums", "fake_quantize_per_token_backward grad_output=f32[20,20] zero_point=f32 grad_scale=f32 qmin=-128 qmax=127"},
	{"quant_quick.cuh", "q.reciprocal ? 0 : inverse", "0", "quantize", "quantize_per_token x=f32[20,520] q=s8 qmin=-128 qmax=127"},
	{"quant_quick.cuh", "return sum != sum;", "return false;", "quantize", "quantize_per_token x=f32[20,20] q=s8 qmin=-128 qmax=127"},
	{"quant_quick.cuh", "fmaxf(u * ((1 << drop) + 1), least)", "u * ((1 << drop) + 1)", "quantize", "quantize_per_token x=f32[20,520] zero_point=none q=f8e4m3 qmin=-448 qmax=448"},
	{"quant_quick.cuh", "bits_of(u) | (bits_of(v) & 1u << 31)", "bits_of(u)", "quantize", "quantize_per_token_backward grad_output=f32[20,520] qmin=-8 qmax=7"},
	{"quant_map.cuh", "(lane >> t.log_lanes)", "0", "quantize", "quantize_per_token x=f32[20,160] q=s8 qmin=-128 qmax=127"},
	{"quant_map.cuh", "lane < runs ? lane : 0", "0", "quantize", "quantize_per_token x=f32[20,60] q=s8 qmin=-128 qmax=127"},
	{"quant_map.cuh", "number * t.run + at", "number * t.run", "dequantize", "dequantize_per_token q=s8[2,2000] y=f32 qmin=-128 qmax=127"},
	{"quant_quick.cuh", "code_bias<s8> = 128", "code_bias<s8> = 0", "dequantize", "dequantize_per_token q=s8[20,60] y=f32 qmin=-128 qmax=127"},
	{"quant_quick.cuh", "(two & 0x80008000)", "0", "dequantize", "dequantize_per_token q=f8e4m3[20,60] y=f32 zero_point=none qmin=-448 qmax=448"},
	{"quant.cuh", ": x / s;", ": x * ((T)1 / s);", "quant_sums", "fake_quantize_per_token_backward grad_output=f32[20,20] zero_point=none grad_scale=f32 qmin=-448 qmax=448 code=f8e4m3"},
	{"stripe.cuh", "stripe_stage<Job>(a, t, start, positions);\n    __syncthreads();", "stripe_stage<Job>(a, t, start, positions);", "weight_only_linear", "weight_only_linear x=f32[3,3000] weight=s8[3,3000] group_size=15"},
	{"few.cuh", "left -= turn;\n      __syncthreads();", "left -= turn;", "quant_sums", "fake_quantize_per_tensor_backward grad_output=f32[8192] grad_scale=f32 qmin=-8 qmax=7"},
	{"few.cuh", "by = 16; by > 0; by /= 2", "by = 1; by < 32; by *= 2", "quant_sums", "dequantize_per_tensor_backward grad_output=f32[3000] grad_scale=f32 qmin=-8 qmax=7"},
	{"few.cuh", "stride(STEP * s.reductions)", "stride(stripe_lanes * s.reductions)", "quant_sums", "dequantize_per_channel_backward grad_output=f32[3000,8] grad_scale=f32 axis=1 qmin=-8 qmax=7"},
	{"affine_grid.cu", "load();\n      __syncthreads();", "load();", "affine_grid", "affine_grid_backward grad_grid=f32[2,50,60,2]"},
	{"affine_grid.cu", "u + 1 < each ? one : rest", "one", "affine_grid", "affine_grid_backward grad_grid=f32[2,150,60,2]"},
	{"affine_grid.cu", "fma_(fma_(-by, u, n), inverse, u)", "u", "affine_grid", "affine_grid_backward grad_grid=f32[2,3,40,61,3]"},
	{"quant_sums.cuh", "first = lo - z", "first = lo", "quant_sums", "fake_quantize_per_group_backward grad_output=f32[40,128] zero_point=f32 grad_scale=f32 group_size=128 qmin=-8 qmax=7"},
	{"quant_sums.cuh", "usual(x) || (x == 0 && small == small)", "true", "quant_sums", "fake_quantize_per_token_backward grad_output=f32[20,20] grad_scale=f32 qmin=-8 qmax=7"},
	{"quant_quick.cuh", "return fma_(fma_(-s, u, x), step, u);", "return u;", "quant_sums", "fake_quantize_per_token_backward grad_output=f32[20,20] zero_point=none grad_scale=f32 qmin=-8 qmax=7"},
	{"quant_sums.cuh", "place += m.pitch - m.width;", "", "quant_sums", "fake_quantize_per_channel_backward grad_output=f32[4,3,68] grad_scale=f32 axis=1 qmin=-8 qmax=7"},
	{"rows.cuh", "sums[u % turns])", "sums[0])", "quant_sums", "dequantize_per_token_backward grad_output=f32[20,301] grad_scale=f32 qmin=-8 qmax=7"},
	{"rows.cuh", "by = W / 2; by > 0; by /= 2", "by = 1; by < W; by *= 2", "quant_sums", "dequantize_per_tensor_backward grad_output=f32[1000] grad_scale=f32 qmin=-8 qmax=7"},
	{"rows.cuh", "i64 row = block * stripe_lanes + n / S * (stripe_lanes / each) + lane;", "i64 row = block * stripe_lanes + n / S + lane * each;", "quant_sums", "dequantize_per_channel_backward grad_output=f32[300,8] grad_scale=f32 axis=1 qmin=-8 qmax=7"},
	{"short.cuh", "by = threads / 2; by > 0; by /= 2", "by = 1; by < threads; by *= 2", "quant_sums", "dequantize_per_group_backward grad_output=f32[40,128] grad_scale=f32 group_size=128 qmin=-8 qmax=7"},
	{"choice.cuh", "return (i32)a > (i32)b ? a : b;", "return a > b ? a : b;", "choose_qparams", "choose_qparams_per_token x=f32[9,1040] qmin=-8 qmax=7 symmetric=false"},
	{"choice.cuh", "if (s < (T)a.factor) s", "if (!(s > (T)a.factor)) s", "choose_qparams", "choose_qparams_per_token x=f32[90,40] qmin=-8 qmax=7 eps=0.5"},
	{"choice.cuh", "threadIdx.x / 32] = key[k];\n    }\n    __syncthreads();", "threadIdx.x / 32] = key[k];\n    }", "choose_qparams", "choose_qparams_per_token x=f32[9,1040] qmin=-8 qmax=7"},
	{"choose_qparams.cu", "keys[n / V][n % V];\n  __syncthreads();", "keys[n / V][n % V];", "choose_qparams", "choose_qparams_per_channel x=f32[70,264] axis=1 qmin=-8 qmax=7"},
	{"choice.cuh", "? widen<T>(Narrow<f16>::from(s))", "? s", "quantize_dynamic", "dynamic_quantize_per_token x=f32[20,520] scale=f16 q=s8 qmin=-128 qmax=127"},
	{"dynamic.cuh", "upper ? mine : other, by", "upper ? other : mine, by", "quantize_dynamic", "dynamic_quantize_per_token x=f32[20,64] q=s8 qmin=-128 qmax=127"},
	{"dynamic.cuh", "self * TURNS >> log", "0", "quantize_dynamic", "dynamic_quantize_per_token x=f32[20,64] q=s8 qmin=-128 qmax=127"},
	{"dynamic.cuh", "a.symmetric && lo <= -hi", "a.symmetric", "quantize_dynamic", "dynamic_quantize_per_token x=f32[20,520] q=u4 qmin=0 qmax=7"},
	{"dynamic.cuh", "inverse, u) + shift", "0, u) + shift", "quantize_dynamic", "dynamic_quantize_per_group x=f32[20,520] q=u8 zero_point=i32 group_size=8 qmin=0 qmax=21 symmetric=false"},
	{"dynamic.cuh", "s >= Levels<f32>::tiny && s <= 1 / Levels<f32>::tiny", "true", "quantize_dynamic", "dynamic_quantize_per_token x=f32[20,520] q=s8 zero_point=i32 qmin=-128 qmax=127 symmetric=false"},
	{"chunk.cuh", "chunk_terms = 256", "chunk_terms = 512", "grid_sample_input,sort", "grid_sample_backward grad_output=f32[1,3,1,64,50] input=f32[1,3,1,1,2] grid=f32[1,1,64,50,3] grad_grid=none mode=nearest"},
	{"chunk.cuh", "chunk_terms = 256", "chunk_terms = 512", "embedding_backward,sort", "embedding_backward grad_output=f32[3000,8] indices=i64[3000] grad_weight=f32[1,8]"},
	{"embedding_rows.cuh", "__shfl_sync(all_lanes, count, from)", "count", "embedding_backward,sort", "embedding_backward grad_output=f32[30,8] indices=i64[30] grad_weight=f32[9,8]"},
	{"sort.cu", "(1u << lane) - 1", "~1u << lane", "embedding_backward,sort", "embedding_backward grad_output=f32[200,8] indices=i64[200] grad_weight=f32[2,8]"},
	{"sort.cu", "v[1] = (u32)from + first", "v[1] = first", "embedding_backward,sort", "embedding_backward grad_output=f32[3000,8] indices=i64[3000] grad_weight=f32[2,8]"},
	{"chunk.cuh", "chunk_terms = 256", "chunk_terms = 512", "embedding_bag", "embedding_bag weight=f32[40,8] indices=i64[2,900] mode=sum bounds=skip"},
	{"weights.cuh", "div_(column, a.group)", "0", "embedding_bag", "weight_only_embedding_bag weight=s8[4,8] indices=i64[2,30] group_size=4 bounds=skip"},
	{"embedding_bag.cu", "v > best ||", "v >= best ||", "embedding_bag", "embedding_bag weight=f32[4,8] indices=i64[2,30] mode=max chosen=i64 bounds=skip"},
	{"embedding_bag_backward.cu", "keeps && a.mode == bag_mean_", "a.mode == bag_mean_", "embedding_bag_backward,embedding_bag,sort", "embedding_bag_backward grad_output=f32[4,8] indices=i64[4,30] grad_weight=f32[4,8] padding_idx=1"},
	{"embedding_bag_backward.cu", "count[j] == chunk_terms", "count[j] == 2 * chunk_terms", "embedding_bag_backward,embedding_bag,sort", "embedding_bag_backward grad_output=f32[1800,8] indices=i64[1800,2] grad_weight=f32[2,8] mode=max chosen=i64"},
	{"float8.cuh", "abs_(rint_(v *", "abs_(trunc_(v *", "quant_sums", "fake_quantize_per_token_backward grad_output=f32[20,20] zero_point=none grad_scale=f32 qmin=-448 qmax=448 code=f8e4m3"},
	{"float8.cuh", "if (e == 0) return", "if (e < 0) return", "dequantize", "dequantize_per_token q=f8e5m2[80,49] y=f32 zero_point=none qmin=-448 qmax=448"},
	{"packed.cuh", "code > 7", "code > 8", "packed", "dequantize_per_tensor q=s4[33] y=f32 qmin=-8 qmax=7"},
	{"packed.cuh", "column & 1", "1 - (column & 1)", "weight_only_linear", "weight_only_linear x=f32[2,40] weight=u4[3,40] group_size=16"},
	{"weights.cuh", "row * a.groups", "row", "weight_only_linear", "weight_only_linear x=f32[2,40] weight=s8[3,40] group_size=16"},
	{"linear.cuh", "sum += p.v[i] * weight[i]", "sum = fma_(p.v[i], weight[i], sum)", "grid_sample", "grid_sample input=f32[1,3,8,8] grid=f32[1,8,8,2]"},
	{"flat.cuh", "? x[d].c : (T)-2", "? x[d].c : (T)0", "grid_sample", "grid_sample input=f32[1,3,40,40] grid=f32[1,32,32,2]"},
	{"flat.cuh", "in + own + row", "in + own", "grid_sample", "grid_sample input=f32[1,3,40,40] grid=f32[1,32,32,2]"},
	{"flat.cuh", "in[0][1] && in[1][y]", "in[0][0] && in[0][1] && in[1][y]", "grid_sample", "grid_sample input=f32[1,3,40,40] grid=f32[1,32,32,2]"},
	{"flat.cuh", "out[j].v[2 * y + 1] = far_column() ? v[j][y][1] : other", "out[j].v[2 * y + 1] = other", "grid_sample", "grid_sample input=f32[1,3,40,40] grid=f32[1,32,32,2]"},
	{"bicubic.cuh", "base + (T)(i - 1)", "base + (T)i", "grid_sample", "grid_sample input=f32[1,3,8,8] grid=f32[1,8,8,2] mode=bicubic padding_mode=reflection"},
	{"bicubic.cuh", "Orders::order(n, D - 1)", "Orders::order(n, 0)", "grid_sample_grid", "grid_sample_backward grad_output=f32[1,3,4,4,4] input=f32[1,3,4,4,4] grid=f32[1,4,4,4,3] grad_input=none mode=bicubic"},
	{"input_gradient.cuh", "source % EACH", "source % 16", "grid_sample_input,sort", "grid_sample_backward grad_output=f32[1,3,4,4,4] input=f32[1,3,4,4,4] grid=f32[1,4,4,4,3] grad_grid=none mode=bicubic"},
	{"group.cuh", "(c + half * STEP, part)", "(c + half * group_channels / 2 / STEP, part)", "grid_sample_grid", "grid_sample_backward grad_output=f32[1,16,8,8] input=f32[1,16,8,8] grid=f32[1,8,8,2] grad_input=none"},
	{"group.cuh", "part[i].clear()", "", "grid_sample_grid", "grid_sample_backward grad_output=f32[1,6,8,8] input=f32[1,6,8,8] grid=f32[1,8,8,2] grad_input=none"},
	{"group.cuh", "= group;\n    __syncthreads();", "= group;", "grid_sample_grid", "grid_sample_backward grad_output=f32[1,150,3,3] input=f32[1,150,4,4] grid=f32[1,3,3,2] grad_input=none"},
	{"linear.cuh", "(v[far + step] - v[near + step]) - (v[far] - v[near])", "(v[far + step] - v[far]) - (v[near + step] - v[near])", "grid_double", second + "grad_grad_input=none grad_grad_output=none grad_input=none"},
	{"bicubic.cuh", "weight[2][2] = cubic", "weight[2][2] = -cubic", "grid_double", second + "grad_grad_output=none grad_input=none mode=bicubic padding_mode=border"},
	{"grid_double.cu", "y[j] += taps.gradient(slopes, d) * v[d]", "y[j] = fma_(taps.gradient(slopes, d), v[d], y[j])", "grid_double", second + "grad_input=none grad_grid=none"},
	{"grid_double.cu", "Taps::SELF || other != d", "other != d", "grid_double", second + "grad_grad_output=none grad_input=none mode=bicubic"},
	{"grid_double.cu", "slopes[d] += sum * taps.place.derivative(d)", "slopes[d] = fma_(sum, taps.place.derivative(d), slopes[d])", "grid_double", second + "grad_grad_output=none grad_input=none align_corners=true"},
	{"grid_double_input.cu", "item.weight += weights.slope(tap, d) * shift.q[d]", "item.weight = fma_(weights.slope(tap, d), shift.q[d], item.weight)", "grid_double_input,grid_sample_input,sort", second + "grad_grad_output=none grad_grid=none"},
	{"chunk.cuh", "chunk_terms = 256", "chunk_terms = 512", tileUnits, "grid_sample_backward grad_output=f32[1,3,64,50] input=f32[1,3,1,1] grid=f32[1,64,50,2] grad_grid=none"},
	{"tile_lists.cuh", "last >> log != tile[0]", "false", tileUnits, "grid_sample_backward grad_output=f32[1,3,64,50] input=f32[1,3,4,64] grid=f32[1,64,50,2] grad_grid=none"},
	{"tiles.cuh", "t.list[to + before] =", "t.list[to] =", tileUnits, "grid_sample_backward grad_output=f32[1,3,64,50] input=f32[1,3,1,1] grid=f32[1,64,50,2] grad_grid=none"},
	{"tiles.cuh", "votes & ((1u << lane) - 1)", "votes >> 1 >> lane", tileUnits, "grid_sample_backward grad_output=f32[1,3,64,50] input=f32[1,3,1,1] grid=f32[1,64,50,2] grad_grid=none"},
	{"tiles.cuh", "w += taps.slope(tap, 1) * q[1]", "w = fma_(taps.slope(tap, 1), q[1], w)", tileUnits, "grid_sample_double_backward grad_output=f32[1,3,64,50] input=f32[1,3,2,2] grid=f32[1,64,50,2] grad_grad_output=none grad_grid=none"},
	{"link.cuh", "cell != before || source != neighbour + 1", "cell != before", tileUnits, "grid_sample_backward grad_output=f32[1,3,5,6] input=f32[1,3,4,4] grid=f32[1,5,6,2] grad_grid=none"},
	{"links.cuh", "(before = keys[to - step]) > key", "(before = keys[to - step]) > ~0u", tileUnits, "grid_sample_backward grad_output=f32[1,3,9,9] input=f32[1,3,9,9] grid=f32[1,9,9,2] grad_grid=none"},
	{"links.cuh", "i == N - 1 || !beyond[i + 1]", "true", tileUnits, "grid_sample_backward grad_output=f32[1,3,9,9] input=f32[1,3,9,9] grid=f32[1,9,9,2] grad_grid=none"},
	{"links.cuh", "a.heavy[s.images * a.tiles] = 1", "a.heavy[s.images * a.tiles] = 0", tileUnits, "grid_sample_backward grad_output=f32[1,3,20,30] input=f32[1,3,20,30] grid=f32[1,20,30,2] grad_grid=none"},
	{"links.cuh", "weight += (y.near[h] ? -x.weight[w] : x.weight[w]) * spot.v[3]", "weight = fma_(y.near[h] ? -x.weight[w] : x.weight[w], spot.v[3], weight)", tileUnits, "grid_sample_double_backward grad_output=f32[1,3,9,9] input=f32[1,3,9,9] grid=f32[1,9,9,2] grad_grad_output=none grad_grid=none"},
	{"matmul.cu", "a.k, -(T)0), columns", "a.k, (T)0), columns", "matmul", "matmul input=f32[40,1] other=f32[1,40]"},
	{"matmul.cu", "sum[i][j] = fma_(x[i], w[j], sum[i][j])", "sum[i][j] += x[i] * w[j]", "matmul", "matmul input=f32[9,30] other=f32[30,7]"},
	{"matmul.cu", "columns.put(other);\n      __syncthreads();", "columns.put(other);", "matmul", "matmul input=f32[9,30] other=f32[30,7]"},
	{"matmul_sm80.cu", "sum[i][j] = fma_(f[0][q], b[j / W::G][j % W::G][q], sum[i][j])", "sum[i][j] += f[0][q] * b[j / W::G][j % W::G][q]", "matmul,matmul_sm80", "matmul input=f32[9,32] other=f32[32,8]"},
	{"matmul_sm80.cu", "copies_wait<P::STAGES - 2>();\n      __syncthreads();", "copies_wait<P::STAGES - 2>();", "matmul,matmul_sm80", "matmul input=f32[9,256] other=f32[256,8]"},
	{"matmul_wide_sm80.cu", "copies_wait<P::STAGES - 2>();\n      __syncthreads();", "copies_wait<P::STAGES - 2>();", "matmul,matmul_wide_sm80", "matmul input=f32[72,40] other=f32[40,8136]"},
	{"matmul_wide_sm80.cu", "multiply(k / Q % 2)", "multiply(0)", "matmul,matmul_wide_sm80", "matmul input=f32[72,40] other=f32[40,8136]"},
	{"quantized_linear_sm80.cu", "copies_wait<STAGES - 2>()", "copies_wait<STAGES - 1>()", "quantized_linear,quantized_linear_sm80", "quantized_linear x=s8[9,1040] weight=s8[5,1040] y=f32"},
	{"quantized_linear_sm80.cu", "c + lane / 8 % 2", "c + lane / 16", "quantized_linear,quantized_linear_sm80", "quantized_linear x=s8[9,64] weight=s8[5,64] y=f32"},
	{"quantized_linear_sm80.cu", "share == 0 && s < P::WK - 1", "share == 0 && s < P::WK - 2", "quantized_linear,quantized_linear_sm80", "quantized_linear x=s8[9,256] weight=s8[5,256] y=f32"},
	{"weight_few.cu", "put(slice[s]);\n      __syncthreads();", "put(slice[s]);", "weight_only_linear,weight_few", "weight_only_linear x=f32[2,96] weight=s8[3,96] group_size=32"},
	{"weight_few.cu", "sum[t * MT + m][e] += v.v[e] * w[t][e]", "sum[t * MT + m][e] = fma_(v.v[e], w[t][e], sum[t * MT + m][e])", "weight_only_linear,weight_few", "weight_only_linear x=f32[2,96] weight=s8[3,96] group_size=32"},
	{"weight_few.cu", "(c * stripe_lanes + self * few_own) / few_run", "c * stripe_lanes / few_run", "weight_only_linear,weight_few", "weight_only_linear x=f32[1,96] weight=u4[3,96] group_size=32"},
	{"quantized_linear_per_group.cuh", " - (u32)w_zero * (u32)x_sum", "", "quantized_linear_per_group", "quantized_linear_per_group x=u8[9,40] weight=u4[5,40] weight_zero_point=u8 group_size=10"},
	{"quantized_linear_per_group.cuh", "(T)codes.lo, (T)codes.hi", "(T)-1000, (T)codes.hi", "quantized_linear_per_group", "quantized_linear_per_group x=s8[40,9] x_zero_point=f32 weight=s8[5,9] group_size=9"},
	{"quantized_linear_per_group.cuh", "part_words = 8192", "part_words = 1 << 20", "quantized_linear_per_group", "quantized_linear_per_group x=u8[1,140004] weight=u8[1,140004] group_size=140004"},
	{"quantized_linear_per_group.cu", "l.sum_lines(words);\n      __syncthreads();", "l.sum_lines(words);", "quantized_linear_per_group", "quantized_linear_per_group x=u8[9,40] weight=s8[5,40] group_size=10"},
	{"quantized_linear_per_group.cu", "a.groups > 0 ? -(T)0 : (T)0", "(T)0", "quantized_linear_per_group", "quantized_linear_per_group x=s8[90,1] weight=u4[90,1] bias=none group_size=1"},
	{"quantized_linear_per_group.cu", "y[i][j] += total * (x_scale[row] * stage.scale[g][column])", "y[i][j] = fma_(total, x_scale[row] * stage.scale[g][column], y[i][j])", "quantized_linear_per_group", "quantized_linear_per_group x=u8[9,40] weight=s8[5,40] group_size=10"},
	{"group_linear_few.cu", "few.put(slice[s]);\n      __syncthreads();", "few.put(slice[s]);", "quantized_linear_per_group,group_linear_few", "quantized_linear_per_group x=s8[3,96] weight=s8[3,96] group_size=32"},
	{"group_linear_few.cu", "__byte_perm(first, second, 0x7531)", "__byte_perm(first, second, 0x6420)", "quantized_linear_per_group,group_linear_few", "quantized_linear_per_group x=s8[3,96] weight=u4[3,96] group_size=32"},
	{"group_linear_few.cu", "--left > 0 && first + run + 1 < runs", "--left > 0", "quantized_linear_per_group,group_linear_few", "quantized_linear_per_group x=s8[1,96] weight=s4[3,96] group_size=64"},
	{"group_linear_sm80.cu", "copies_wait<P::STAGES - 2>()", "copies_wait<P::STAGES - 1>()", "quantized_linear_per_group,group_linear_sm80", "quantized_linear_per_group x=s8[17,320] weight=s8[5,320] group_size=32"},
	{"group_linear_sm80.cu", "warp.put(shared.params[(step + 1) % 2])", "warp.put(shared.params[step % 2])", "quantized_linear_per_group,group_linear_sm80", "quantized_linear_per_group x=s8[17,320] weight=s8[5,320] group_size=32"},
	{"group_linear_sm80.cu", "eight.v[1], 0x7531)", "eight.v[1], 0x6420)", "quantized_linear_per_group,group_linear_sm80", "quantized_linear_per_group x=s8[17,64] weight=s4[5,64] group_size=32"},
	{"group_linear_sm80.cu", "r, 32 * done", "r, 32 * warp.group_runs", "quantized_linear_per_group,group_linear_sm80", "quantized_linear_per_group x=u8[17,96] weight=u4[5,96] weight_zero_point=u8 group_size=64"},
	{"cell.cuh", "? (T)0 : v[d] *", "? v[d] : v[d] *", "grid_double_input,grid_sample_input,sort", second + "grad_grad_output=none grad_grid=none padding_mode=border"},
}

// TestCUDAMutants shows that the comparison finds each of them, and nothing without it.
func TestCUDAMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles kernels several times")
	}
	whole, programs := buildShim(t), make([]string, len(mutants))
	t.Run("compile", func(compile *testing.T) {
		for i, m := range mutants {
			compile.Run(m.file, func(each *testing.T) {
				kernels, err := compareAll(each, whole, m.text)
				if err != nil {
					each.Fatalf("%s without a mistake: %v", m.text, err)
				}
				each.Parallel()
				programs[i] = buildMutant(each, m, whole, t.TempDir(), kernels)
			})
		}
	})
	for i, m := range mutants {
		if _, err := compareAll(t, programs[i], m.text); err == nil || !strings.Contains(err.Error(), "elements differ") {
			t.Errorf("%s with %q: the comparison found nothing (%v)", m.file, m.to, err)
		} else {
			t.Logf("%s with %q: %v", m.file, m.to, err)
		}
	}
}

// compareAll compares what a program computes of a problem with the definition,
// on all kinds of data, since only some values may show a mistake, until they
// differ. It returns which kernels ran.
func compareAll(t *testing.T, program, text string) (map[string]bool, error) {
	s := startShim(t, program)
	defer cuda.ReplaceDriver(s)()
	for _, data := range []string{"plain", "mixed", "hot", "inner", "calm"} {
		if err := (deviceCase{text: text, data: data}).run(s, false); err != nil {
			return s.launched, err
		}
	}
	return s.launched, nil
}
