#pragma once

#include "kernel/covariance.h"
#include "kernel/weight_index.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace opo_cmab
{
/// A feature of an example: the number of its weight, and its value. Several on one weight count as one, their sum.
class feature
{
public:
  uint64_t weight;
  float value;
};

/// Regularized least squares, one example at a time, in blocks: weights that occur together share a block, in which the
/// regression is exact; blocks know nothing of one another. In a block, with z the features of an example, in units of
/// the largest value so far, P the covariance of the weights, and h the weight of the example:
///
///   v = z'Pz,   g = h Pz / (1 + h sum of all v),   w += g (y - w.z),   P -= h Pz (Pz)' / (1 + h v)
///
/// P starts at I / penalty. Several candidates learn side by side, with other penalties, and one without blocks, each
/// weight for itself; the one with the least recent squared error predicts. With a penalty that is given there is that
/// one only, with features in their own units: ridge regression.
///
/// The same g fits the weights to ones besides. Of the ones, a prediction has nearly all where the examples have told
/// what to expect, and none where its weights are new; the rest is filled by an initial prediction, which may be chosen
/// afterwards: cost + initial (1 - one). So origin and unit of the labels do not matter.
class least_squares
{
public:
  static constexpr uint32_t LARGEST_BLOCK = 1024;

  /// \param block the most weights in a block; 1: each weight for itself
  /// \param penalty 0: several, chosen by their errors
  least_squares(uint32_t block, float penalty);

  /// \param initial what to predict where nothing is known, in the unit of the labels
  double predict(const std::vector<feature>& features, double initial);

  /// The variance of the prediction, in units of that of the labels' noise: z'Pz for the blocks together.
  double variance(const std::vector<feature>& features);

  /// Learns what an example's label is.
  /// \param weight its importance; 0: nothing is learnt
  /// \return what was predicted for it
  double learn(const std::vector<feature>& features, double label, double weight, double initial);

  /// Whether the last example that was learnt had no weight that had been learnt before.
  bool learnt_unknown() const { return _learnt_unknown; }

  /// The mean of the labels so far: an initial prediction.
  double mean() const { return _origin + _mean; }

  /// A weight as a linear model has it, for the value of its feature: of predictions less their constant part.
  double weight(std::size_t i, double initial) const;
  uint64_t weight_number(std::size_t i) const { return _numbers[i]; }
  std::size_t weights() const { return _numbers.size(); }

  std::size_t blocks() const { return _blocks.size(); }
  std::size_t bytes() const;
  float penalty() const { return _candidates[_best].penalty; }  ///< of the candidate in use
  bool in_blocks() const { return _candidates[_best].blocks; }  ///< whether the candidate in use has blocks

  std::string serialize() const;
  /// \return false if these are not the bytes of such a regression
  bool deserialize(const char* bytes, std::size_t size);

private:
  class candidate
  {
  public:
    float penalty;
    bool blocks;
    float keep;  ///< without blocks: of what is known, from one example to the next; 1: all
  };

  /// What a weight has apart from its candidates.
  class place
  {
  public:
    float scale = 0.f;      ///< the largest value of a feature on it; 0: it had none yet
    uint32_t block = NONE;  ///< NONE: it is alone
    uint32_t row = 0;       ///< in its block
    float observed = 0.f;   ///< the sum of h z^2 of all examples
  };

  class block
  {
  public:
    uint32_t room;       ///< for so many members
    uint32_t group = 0;  ///< its place in _groups, plus one; 0 between examples
    std::vector<uint32_t> members;
    std::vector<float> covariances;  ///< of each candidate with blocks (covariance.h)
  };

  class state  ///< of the candidate for one weight: predictions are sums of these
  {
  public:
    double cost = 0.;  ///< of labels relative to the first one
    double one = 0.;
  };

  /// A weight of the current example.
  class active
  {
  public:
    uint32_t weight;
    float value;    ///< of all its features; then z, in units of its scale
    float largest;  ///< value of one of them
  };

  /// A block of the current example.
  class group
  {
  public:
    uint32_t block;
    std::size_t offset;  ///< of z and f
    std::size_t end;     ///< z is 0 from here on
    double variance;     ///< v, of one candidate
  };

  uint32_t _largest_block;
  bool _adapts;
  std::vector<candidate> _candidates;  ///< those with blocks come first
  std::size_t _with_blocks = 0;

  weight_index _index;
  std::vector<uint64_t> _numbers;  // of each weight, as all below
  std::vector<place> _places;
  std::vector<state> _states;     ///< of each weight, of each candidate
  std::vector<float> _variances;  ///< the same, where the weight is alone
  std::vector<block> _blocks;
  std::size_t _in_blocks = 0;  ///< weights

  std::size_t _best = 0;
  std::vector<double> _errors;  ///< of each candidate, recent ones
  double _origin = 0.;          ///< the first label
  double _mean = 0.;            ///< of the labels, relative to the first, as all below
  double _squares = 0.;         ///< sum of squared distances from the mean
  double _count = 0.;
  double _min = std::numeric_limits<double>::infinity();
  double _max = -std::numeric_limits<double>::infinity();

  bool _learnt_unknown = false;

  // The current example.
  std::vector<active> _active;
  std::vector<uint32_t> _marks;  ///< of each weight: its place in _active, plus one; 0 between examples
  std::vector<feature> _unknown;
  std::vector<uint32_t> _looked_up;  ///< weights of features, to be predicted
  std::vector<group> _groups;
  std::vector<uint32_t> _alone;  ///< places in _active
  std::vector<float> _z;
  std::vector<float> _f;      ///< of one candidate
  std::vector<float> _along;  ///< Pz of a block
  std::vector<std::array<double, 2>> _parts;

  static std::size_t rows_of(const block& b) { return up_to_multiple(b.members.size(), FLOAT_LANES); }
  static float* covariance_of(block& b, std::size_t candidate)
  {
    return b.covariances.data() + candidate * covariance_size(rows_of(b));
  }
  void look_up(const std::vector<feature>& features);
  void collect(const std::vector<feature>& features, bool add);
  float in_units(const place& at, float value) const;
  void add_units();
  void grow(uint32_t weight, float factor);
  void assign_blocks();
  bool is_full(uint32_t b) const { return _blocks[b].members.size() == _blocks[b].room; }
  void join(uint32_t weight, uint32_t block);
  void arrange();
  void forget_example();
  double project(std::size_t candidate);
  state predict_active(std::size_t candidate) const;
  void update(std::size_t candidate, double error_of_cost, double error_of_one, double weight, double denominator);
  void observe_label(double label, double weight);
  double clip(double label) const;
};
}  // namespace opo_cmab
