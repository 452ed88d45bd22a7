// isobit.hpp: tensors and their extents.
#include "testing.hpp"

#ifdef __STDCPP_BFLOAT16_T__
#include <stdfloat>
#endif

namespace {

void tensors() {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const float scale[] = {1, 0.5f};
  std::vector<int8_t> q(12, 99);
  const isobit::Plan plan(quantize);
  // const memory as input, a pointer with its shape, strides on the output.
  plan.run({{x, {2, 3}}, {scale, {2}}, {}, {q.data(), {2, 3}, {6, 2}}});
  CHECK((q == std::vector<int8_t>{1, 99, 2, 99, 3, 99, 8, 99, 10, 99, 12, 99}));
  // A copy points at its own shape and strides.
  auto original = std::make_unique<isobit::Tensor>(x.data(), isobit::Extents{2, 3}, isobit::Extents{3, 1});
  const isobit::Tensor copy = *original;
  CHECK(copy.dl()->shape != original->dl()->shape && copy.dl()->strides != original->dl()->strides);
  original.reset();
  CHECK(copy.dl()->shape[1] == 3 && copy.dl()->strides[0] == 3 && copy.dl()->data == x.data());
  isobit::Tensor absent;
  CHECK(!absent.present() && absent.dl() == nullptr);
  absent = copy;
  CHECK(absent.present());
  float value = 0;
  CHECK(isobit::Tensor(&value, {}).dl()->ndim == 0);
  const isobit::Tensor there = copy.on({kDLCUDA, 3});
  CHECK(there.dl()->device.device_type == kDLCUDA && there.dl()->device.device_id == 3);
  CHECK(there.dl()->shape != copy.dl()->shape && there.dl()->shape[1] == 3 && copy.dl()->device.device_type == kDLCPU);
  CHECK(thrown(": x is on cuda:3; want cpu", [&] { plan.run({there, {scale, {2}}, {}, {q.data(), {2, 3}}}); }) ==
        ISOBIT_INVALID_ARGUMENT);
  // const memory as output was written to, or crashed the program where it is mapped so.
  static const int8_t codes[6] = {};
  const std::vector<isobit::Tensor> args{copy, {scale, {2}}, {}, {codes, {2, 3}}};
  CHECK(args[3].is_const() && !isobit::Tensor(q).is_const());
  CHECK(thrown("quantize_per_channel: q is const; it is an output", [&] { plan.run(args); }) ==
        ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("q is const", [&] { plan.run(args, nullptr, nullptr, 0); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("q is const", [&] { plan.can_implement(args); }) == ISOBIT_INVALID_ARGUMENT);
  const isobit::Plan renorm("embedding_renorm weight=f32[2,3] indices=i64[0] max_norm=1");
  const std::vector<int64_t> none;
  CHECK(thrown("embedding_renorm: weight is const", [&] { renorm.run({copy, none}); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("strides differ", [&] { isobit::Tensor(x.data(), {2, 3}, {3}); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("strides differ", [&] { isobit::Tensor(x.data(), {3}, {3, 1}); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("8 elements", [&] { isobit::Tensor(x, {2, 4}); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("6", [&] { isobit::Tensor(x, {2, 2}); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("extent -2", [&] { isobit::Tensor(x, {-2, -3}); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("9 dimensions; want at most 8", [&] { isobit::Tensor(x, {1, 1, 1, 1, 1, 1, 1, 1, 6}); }) ==
        ISOBIT_INVALID_ARGUMENT);
}

// Shapes and strides that are known when the program runs, arrays, and spans where there are any.
void extents() {
  std::array<float, 6> x{1, 4, 2, 5, 3, 6};
  const std::array<float, 2> scale{1, 0.5f};
  std::array<int8_t, 6> q{};
  const std::vector<int64_t> shape{2, 3};
  const std::array<int64_t, 2> strides{1, 2};
  const isobit::Plan plan(quantize);
  plan.run({{x.data(), shape, strides}, scale, {}, {q, {shape.data(), shape.size()}}});
  CHECK((q == std::array<int8_t, 6>{1, 2, 3, 8, 10, 12}));
  const float scales[] = {1, 0.5f}; // an array of C's is one dimension, too
  int8_t codes[6] = {};
  plan.run({{x, shape}, scales, {}, {codes, shape}});
  CHECK(isobit::Tensor(scales).dl()->ndim == 1 && isobit::Tensor(scales).dl()->shape[0] == 2 && codes[3] == 10);
  CHECK(isobit::Tensor(x).dl()->ndim == 1 && isobit::Tensor(x, shape).dl()->shape[1] == 3);
  CHECK(isobit::Tensor(x, {1, 1, 1, 1, 1, 1, 1, 6}).dl()->shape[7] == 6);
  CHECK(thrown("9 dimensions; want at most 8", [&] { isobit::Tensor(x.data(), std::vector<int64_t>(9, 1)); }) ==
        ISOBIT_INVALID_ARGUMENT);
  // Extents of any integer types, side by side, and those of an array or a list that has a name.
  const size_t rows = 2, columns = 3;
  const unsigned short two = 2;
  const int64_t array[] = {2, 3};
  const std::initializer_list<int64_t> list{2, 3};
  for (const isobit::Tensor &t : {isobit::Tensor(x, {rows, columns}), isobit::Tensor(x, {two, 3}),
                                  isobit::Tensor(x.data(), array), isobit::Tensor(x.data(), list)})
    CHECK(t.dl()->ndim == 2 && t.dl()->shape[0] == 2 && t.dl()->shape[1] == 3);
  CHECK(isobit::Tensor(x.data(), {x.size()}).dl()->shape[0] == 6 && isobit::Tensor(x.data(), {0, columns}).present());
  CHECK(thrown("extent -1", [&] { isobit::Tensor(x, {SIZE_MAX, rows}); }) == ISOBIT_INVALID_ARGUMENT);
#ifdef __cpp_lib_span
  q.fill(0);
  plan.run({{x.data(), shape, strides}, std::span<const float>(scale), {}, {std::span<int8_t>(q), shape}});
  CHECK((q == std::array<int8_t, 6>{1, 2, 3, 8, 10, 12}));
#endif
}

// Each element type's name in DLPack.
void types() {
  const auto is = [](const isobit::Tensor &t, int code, int bits) {
    const DLDataType d = t.dl()->dtype;
    return d.code == code && d.bits == bits && d.lanes == 1;
  };
  const std::vector<isobit::f8e4m3> e4m3(1);
  const std::vector<isobit::f8e5m2> e5m2(1);
  const std::vector<isobit::f16> f16(1);
  const std::vector<isobit::bf16> bf16(1);
  CHECK(is(e4m3, 10, 8) && is(e5m2, 12, 8) && is(f16, kDLFloat, 16) && is(bf16, kDLBfloat, 16));
#ifdef __STDCPP_BFLOAT16_T__ /* of the size of std::float16_t */
  const std::bfloat16_t standard_bf16[1]{};
  const std::float16_t standard_f16[1]{};
  CHECK(is({standard_bf16, {1}}, kDLBfloat, 16) && is({standard_f16, {1}}, kDLFloat, 16));
#endif
  const float f32[1]{};
  const double f64[1]{};
  CHECK(is({f32, {1}}, kDLFloat, 32) && is({f64, {1}}, kDLFloat, 64));
  const int8_t s8[1]{};
  const uint8_t u8[1]{};
  const int16_t s16[1]{};
  const uint16_t u16[1]{};
  const int32_t i32[1]{};
  const int64_t i64[1]{};
  CHECK(is({s8, {1}}, kDLInt, 8) && is({u8, {1}}, kDLUInt, 8) && is({s16, {1}}, kDLInt, 16));
  CHECK(is({u16, {1}}, kDLUInt, 16) && is({i32, {1}}, kDLInt, 32) && is({i64, {1}}, kDLInt, 64));
}

// A DLTensor of another library's, which ends before the run.
void other_libraries() {
  std::array<float, 8> x{9, 9, 1, 4, 2, 5, 3, 6};
  const std::vector<float> scale{1, 0.5f};
  std::vector<int8_t> q(6);
  std::vector<isobit::Tensor> args(4);
  {
    std::array<int64_t, 2> shape{2, 3}, strides{1, 2};
    DLTensor t = *isobit::Tensor(x).dl();
    t.ndim = 2;
    t.shape = shape.data();
    t.strides = strides.data();
    t.byte_offset = 2 * sizeof(float);
    args = {t, scale, {}, {q, {2, 3}}}; // copies
    CHECK(args[0].dl()->shape != shape.data() && args[0].dl()->strides != strides.data());
    shape.fill(7);
    strides.fill(7);
    t.device = {kDLCUDA, 3};
    CHECK(isobit::Tensor(t).dl()->device.device_type == kDLCUDA && isobit::Tensor(t).dl()->device.device_id == 3);
    t.ndim = 9;
    CHECK(thrown("9 dimensions", [&] { isobit::Tensor{t}; }) == ISOBIT_INVALID_ARGUMENT);
    t.ndim = -1;
    CHECK(thrown("without a shape", [&] { isobit::Tensor{t}; }) == ISOBIT_INVALID_ARGUMENT);
    t.ndim = 1;
    t.shape = nullptr;
    CHECK(thrown("without a shape", [&] { isobit::Tensor{t}; }) == ISOBIT_INVALID_ARGUMENT);
    t.ndim = 0;
    CHECK(isobit::Tensor(t).present());
    t.ndim = 2;
    t.shape = shape.data();
    t.strides = nullptr;
    CHECK(isobit::Tensor(t).dl()->shape[1] == 7 && !isobit::Tensor(t).dl()->strides);
  }
  isobit::Plan(quantize).run(args);
  CHECK((q == std::vector<int8_t>{1, 2, 3, 8, 10, 12}));
}

} // namespace

int main() {
  tensors();
  extents();
  types();
  other_libraries();
  std::cout << "ok\n";
}
