// Classifies the held-out digits with the exported model, through isobit.hpp.
//   serve model.safetensors held_out.safetensors [batch]
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <isobit.hpp>

#include "../serving/safetensors.hpp"
#include "../serving/sha256.hpp"

namespace {

using Floats = std::vector<float>;

// The text of a shape, such as "[64,1024]".
std::string text(std::initializer_list<int64_t> shape) {
  std::string s;
  for (const int64_t extent : shape) s += (s.empty() ? "[" : ",") + std::to_string(extent);
  return s + "]";
}

// A linear layer: float activations are quantized per row, then multiplied as integers.
class Linear {
public:
  Linear(const SafeTensors &file, const std::string &name)
      : weight_(file.get<int8_t>(name + ".weight_codes", "I8")), scale_(file.get<float>(name + ".weight_scale", "F32")),
        bias_(file.get<float>(name + ".bias", "F32")), out_(file.shape(name + ".weight_codes").at(0)),
        in_(file.shape(name + ".weight_codes").at(1)) {}

  Floats operator()(const Floats &x) const {
    const int64_t n = static_cast<int64_t>(x.size()) / in_;
    std::vector<int8_t> codes(x.size());
    Floats scale(static_cast<size_t>(n)), y(static_cast<size_t>(n * out_));
    isobit::run("dynamic_quantize_per_token x=f32" + text({n, in_}) + " q=s8 qmin=-127 qmax=127",
                {{x, {n, in_}}, {codes, {n, in_}}, scale, {}});
    isobit::run("quantized_linear x=s8" + text({n, in_}) + " weight=s8" + text({out_, in_}),
                {{codes, {n, in_}}, scale, {weight_, {out_, in_}}, scale_, bias_, {y, {n, out_}}});
    return y;
  }

private:
  std::vector<int8_t> weight_;
  Floats scale_, bias_;
  int64_t out_, in_;
};

Floats relu(Floats x) {
  for (float &value : x) value = std::max(value, 0.0f);
  return x;
}

class DigitNet {
public:
  explicit DigitNet(const SafeTensors &file)
      : table_(file.get<float>("embedding", "F32")), levels_(file.shape("embedding").at(0)),
        features_(file.shape("embedding").at(1)), locate_{{file, "locate.0"}, {file, "locate.1"}, {file, "locate.2"}},
        classify_{{file, "classify.0"}, {file, "classify.1"}} {}

  // The logits of n square canvases of intensities.
  Floats operator()(const std::vector<int32_t> &canvas, int64_t n, int64_t size) const {
    const int64_t c = features_;
    Floats features(canvas.size() * static_cast<size_t>(c)), image(features.size()), grid(canvas.size() * 2);
    isobit::run("embedding weight=f32" + text({levels_, c}) + " indices=i32" + text({n, size, size}),
                {{table_, {levels_, c}}, {canvas, {n, size, size}}, {features, {n, size, size, c}}});

    const Floats theta = locate_[2](relu(locate_[1](relu(locate_[0](features)))));
    isobit::run("affine_grid theta=f32" + text({n, 2, 3}) + " grid=f32" + text({n, size, size, 2}),
                {{theta, {n, 2, 3}}, {grid, {n, size, size, 2}}});
    // Channels come last in memory; strides show them to grid_sample as it wants them.
    const isobit::Tensor channels_first(features.data(), {n, c, size, size}, {size * size * c, 1, size * c, c});
    isobit::run("grid_sample input=f32" + text({n, c, size, size}) + " grid=f32" + text({n, size, size, 2}),
                {channels_first, {grid, {n, size, size, 2}}, {image, {n, c, size, size}}});

    return classify_[1](relu(classify_[0](image)));
  }

private:
  Floats table_;
  int64_t levels_, features_;
  std::vector<Linear> locate_, classify_;
};

void serve(const std::string &model, const std::string &digits, size_t batch) {
  const DigitNet net{SafeTensors(model)};
  const SafeTensors file(digits);
  const auto canvases = file.get<uint8_t>("canvases", "U8");
  const auto labels = file.get<int64_t>("labels", "I64");
  const int64_t size = file.shape("canvases").at(1);
  const size_t pixels = static_cast<size_t>(size * size);
  if (batch == 0 || labels.empty() || canvases.size() != labels.size() * pixels)
    throw std::runtime_error("want a batch of 1 at least, and a square canvas for each label");

  Floats logits;
  for (size_t at = 0; at < labels.size(); at += batch) {
    const size_t n = std::min(batch, labels.size() - at);
    const auto *first = canvases.data() + at * pixels;
    const Floats part = net({first, first + n * pixels}, static_cast<int64_t>(n), size);
    logits.insert(logits.end(), part.begin(), part.end());
  }

  const size_t classes = logits.size() / labels.size();
  size_t right = 0;
  for (size_t i = 0; i < labels.size(); i++) {
    const float *row = logits.data() + i * classes;
    right += std::max_element(row, row + classes) - row == labels[i];
  }
  std::printf("accuracy %.4f\nsha256 %s\n", static_cast<double>(right) / static_cast<double>(labels.size()),
              sha256(logits.data(), logits.size() * sizeof(float)).c_str());
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (argc < 3) throw std::runtime_error("usage: serve model.safetensors held_out.safetensors [batch]");
    serve(argv[1], argv[2], argc > 3 ? std::stoul(argv[3]) : 1);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
