//! Medians and percentiles of figures, and the ratio of two figures that were measured in the same rounds.

/// The largest distance of a ratio's quartiles, as a share of its median, for a ratio that means something.
const WIDEST_SPREAD: f64 = 0.3;
/// The least number of rounds whose quartiles say something about the spread.
const FEWEST_ROUNDS: usize = 3;

/// The median and quartiles of the ratios of all rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ratio {
    /// The lower quartile.
    pub low: f64,
    /// The median, which is the ratio that a row shows.
    pub median: f64,
    /// The upper quartile.
    pub high: f64,
    /// The number of rounds that have a ratio.
    pub rounds: usize,
}

impl Ratio {
    /// Computes the ratios of `ours` to `theirs`, round by round.
    ///
    /// A round without a finite ratio, such as one in which the peer's figure is zero, is left out. Returns `None`
    /// if no round is left.
    pub(crate) fn from_rounds(ours: &[f64], theirs: &[f64]) -> Option<Ratio> {
        let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
        let sorted = sorted(ratios.filter(|ratio| ratio.is_finite()));
        Some(Ratio {
            low: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            high: quantile(&sorted, 0.75)?,
            rounds: sorted.len(),
        })
    }

    /// Whether the rounds agree well enough for the median to mean something.
    pub(crate) fn is_steady(&self) -> bool {
        self.rounds >= FEWEST_ROUNDS && self.high - self.low <= WIDEST_SPREAD * self.median.abs()
    }
}

/// The footnote of a table in which the ratio of a row is not [steady](Ratio::is_steady).
pub(super) fn footnote() -> String {
    format!(
        "~ Do not rely on this ratio: its quartiles lie more than {:.0} % of the median apart, or there were fewer than {FEWEST_ROUNDS} rounds.",
        WIDEST_SPREAD * 100.0
    )
}

/// The median of figures, without those that are not numbers; `None` if none is left.
pub(super) fn median(figures: &[f64]) -> Option<f64> {
    quantile(&sorted(figures.iter().copied().filter(|figure| !figure.is_nan())), 0.5)
}

/// The percentiles 50, 99 and 99.9 of times; `None` if there are none. The first is the [median].
pub(super) fn percentiles(times: &[f64]) -> Option<[f64; 3]> {
    let sorted = sorted(times.iter().copied());
    Some([quantile(&sorted, 0.5)?, quantile(&sorted, 0.99)?, quantile(&sorted, 0.999)?])
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The figure below which this share of the sorted figures lies, interpolated between neighbours.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = sorted.len().checked_sub(1)? as f64 * share;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    // Equal figures may be infinite, in which case they have no difference.
    Some(if below == above { below } else { below + (above - below) * place.fract() })
}

#[cfg(test)]
mod tests {
    use super::{Ratio, median, percentiles};

    /// The ratios of figures to a peer whose figure is 1 in every round.
    fn to_one(figures: &[f64]) -> Ratio {
        Ratio::from_rounds(figures, &vec![1.0; figures.len()]).expect("there are rounds")
    }

    #[test]
    fn medians_of_odd_and_even_numbers_of_figures() {
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_first_percentile_is_the_median() {
        for times in [&[9.0, 1.0, 2.0][..], &[9.0, 1.0, 2.0, 4.0], &[7.0]] {
            assert_eq!(percentiles(times).map(|[p50, ..]| p50), median(times));
        }
        let thousand: Vec<f64> = (0..=1000).map(f64::from).collect();
        assert_eq!(percentiles(&thousand), Some([500.0, 990.0, 999.0]));
        assert_eq!(percentiles(&[]), None);
    }

    #[test]
    fn what_is_no_number_is_no_figure() {
        assert_eq!(median(&[f64::NAN, 3.0, 1.0, 2.0, f64::NAN]), Some(2.0));
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[f64::INFINITY, f64::INFINITY]), Some(f64::INFINITY));
    }

    #[test]
    fn quartiles_of_odd_and_even_numbers_of_rounds() {
        let odd = to_one(&[5.0, 3.0, 1.0, 2.0, 4.0]);
        assert_eq!(odd, Ratio { low: 2.0, median: 3.0, high: 4.0, rounds: 5 });
        let even = to_one(&[4.0, 3.0, 2.0, 1.0]);
        assert_eq!(even, Ratio { low: 1.75, median: 2.5, high: 3.25, rounds: 4 });
    }

    #[test]
    fn one_round_is_all_its_quartiles_and_never_steady() {
        let one = to_one(&[2.0]);
        assert_eq!(one, Ratio { low: 2.0, median: 2.0, high: 2.0, rounds: 1 });
        assert!(!one.is_steady());
        assert!(!to_one(&[2.0, 2.0]).is_steady());
        assert!(to_one(&[2.0, 2.0, 2.0]).is_steady());
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The machine is four times as fast in every other round, for both.
        let ratio =
            Ratio::from_rounds(&[2.0, 8.0, 2.0, 8.0], &[1.0, 4.0, 1.0, 4.0]).expect("there are rounds");
        assert_eq!(ratio, Ratio { low: 2.0, median: 2.0, high: 2.0, rounds: 4 });
        assert!(ratio.is_steady());
    }

    #[test]
    fn rounds_without_a_ratio_are_left_out() {
        let ours = [1.0, f64::NAN, 0.0, 6.0, 9.0];
        let theirs = [0.0, 1.0, 0.0, 2.0, f64::NAN];
        assert_eq!(
            Ratio::from_rounds(&ours, &theirs).map(|ratio| (ratio.median, ratio.rounds)),
            Some((3.0, 1))
        );
        assert_eq!(Ratio::from_rounds(&[1.0, 2.0], &[0.0, 0.0]), None);
        assert_eq!(Ratio::from_rounds(&[], &[]), None);
    }

    #[test]
    fn a_round_that_only_one_of_them_has_gives_no_ratio() {
        assert_eq!(Ratio::from_rounds(&[1.0, 2.0, 3.0], &[1.0, 1.0]).map(|ratio| ratio.rounds), Some(2));
    }

    #[test]
    fn a_ratio_is_steady_up_to_a_spread_of_three_tenths() {
        let ratio = |low, high| Ratio { low, median: 10.0, high, rounds: 5 };
        assert!(ratio(8.5, 11.5).is_steady());
        assert!(!ratio(8.5, 11.6).is_steady());
        // What is zero in every round differs in none.
        assert!(to_one(&[0.0, 0.0, 0.0]).is_steady());
    }
}
