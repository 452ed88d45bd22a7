// Classifies held-out users' candidates with the exported recommender, through isobit.hpp.
//   serve model.safetensors held_out.safetensors
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
using Indices = std::vector<int64_t>;

// A matrix or table of floats, as the file has it.
struct Table {
  Table(const SafeTensors &file, const std::string &name)
      : values(file.get<float>(name, "F32")), rows(file.shape(name).at(0)), columns(file.shape(name).at(1)) {}

  Floats values;
  int64_t rows, columns;
};

// The text of an argument, such as "weight=f32[1000,16]".
std::string text(const std::string &name, int64_t rows, int64_t columns) {
  return " " + name + "=f32[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
}

std::string text(const std::string &name, const Indices &indices) {
  return " " + name + "=i64[" + std::to_string(indices.size()) + "]";
}

// A linear layer of n rows.
class Linear {
public:
  Linear(const SafeTensors &file, const std::string &name)
      : weight_(file, name + ".weight"), bias_(file.get<float>(name + ".bias", "F32")) {}

  Floats operator()(const Floats &x, int64_t n) const {
    const int64_t in = weight_.columns, out = weight_.rows;
    Floats y(static_cast<size_t>(n * out));
    const isobit::Tensor transposed(weight_.values.data(), {in, out}, {1, in});
    isobit::run("matmul" + text("input", n, in) + text("other", in, out) + " bias=f32",
                {{x, {n, in}}, transposed, bias_, {y, {n, out}}});
    return y;
  }

private:
  Table weight_;
  Floats bias_;
};

Floats logits(const SafeTensors &model, const Indices &seen, const Indices &offsets, const Indices &candidate) {
  const auto n = static_cast<int64_t>(candidate.size());
  const Table bags(model, "seen.weight"), items(model, "candidate.weight");
  Floats x(static_cast<size_t>(n * bags.columns)), item(x.size());
  isobit::run("embedding_bag" + text("weight", bags.rows, bags.columns) + text("indices", seen) +
                  text("offsets", offsets) + " mode=mean",
              {{bags.values, {bags.rows, bags.columns}}, seen, offsets, {}, {x, {n, bags.columns}}, {}});
  isobit::run("embedding" + text("weight", items.rows, items.columns) + text("indices", candidate),
              {{items.values, {items.rows, items.columns}}, candidate, {item, {n, items.columns}}});
  for (size_t i = 0; i < x.size(); i++) x[i] *= item[i];
  Floats hidden = Linear(model, "hidden")(x, n);
  for (float &value : hidden) value = std::max(value, 0.0f);
  return Linear(model, "last")(hidden, n);
}

void serve(const std::string &model, const std::string &users) {
  const SafeTensors file(users);
  const auto labels = file.get<int64_t>("labels", "I64");
  const Floats result = logits(SafeTensors(model), file.get<int64_t>("seen", "I64"),
                               file.get<int64_t>("offsets", "I64"), file.get<int64_t>("candidate", "I64"));
  if (labels.empty() || labels.size() != result.size()) throw std::runtime_error("want a label for each candidate");
  size_t right = 0;
  for (size_t i = 0; i < labels.size(); i++) right += (result[i] > 0) == (labels[i] == 1);
  std::printf("accuracy %.4f\nsha256 %s\n", static_cast<double>(right) / static_cast<double>(labels.size()),
              sha256(result.data(), result.size() * sizeof(float)).c_str());
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: serve model.safetensors held_out.safetensors");
    serve(argv[1], argv[2]);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
