//! Measures contenders in turns, round after round.
//!
//! A machine changes its speed within seconds: other programs come and go, clocks rise and fall, threads move to
//! other cores. Two figures that are measured one after the other differ by that too. Therefore every round
//! measures every contender for a short while, and a ratio is computed within each round; see [`Ratio`].

use super::ratio::{self, Ratio};
use super::row::Against;
use crate::error::CliError;
use crate::stop;

/// The figures of a contender in one round.
pub(super) struct Sample {
    /// The figure of the round.
    value: f64,
    /// The times whose median the figure is, if it is one.
    times: Vec<f64>,
    /// Another figure of the same measurement.
    beside: Option<f64>,
}

impl Sample {
    /// A sample with a single figure.
    pub(super) fn figure(value: f64) -> Sample {
        Sample { value, times: Vec::new(), beside: None }
    }

    /// A sample with times, whose median is its figure.
    pub(super) fn times(times: Vec<f64>) -> Sample {
        Sample { value: ratio::median(&times).unwrap_or(f64::NAN), times, beside: None }
    }

    /// Adds another figure of the same measurement.
    pub(super) fn beside(self, figure: f64) -> Sample {
        Sample { beside: Some(figure), ..self }
    }
}

/// The figures of a contender in all rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    values: Vec<f64>,
    times: Vec<f64>,
    beside: Vec<f64>,
}

impl Series {
    fn push(&mut self, sample: Sample) {
        self.values.push(sample.value);
        self.times.extend(sample.times);
        self.beside.extend(sample.beside);
    }

    /// The figure of a row: the median of the times of all rounds, or else of the rounds' figures. `None` if there
    /// was no round.
    pub(super) fn value(&self) -> Option<f64> {
        self.percentiles().map(|[p50, ..]| p50).or_else(|| ratio::median(&self.values))
    }

    /// The percentiles 50, 99 and 99.9 of the times of all rounds, if there are times.
    pub(super) fn percentiles(&self) -> Option<[f64; 3]> {
        ratio::percentiles(&self.times)
    }

    /// The figures that were measured [beside](Sample::beside) the others in all rounds.
    pub(super) fn beside(&self) -> Series {
        self.beside.iter().copied().collect()
    }

    /// The same rounds with every figure multiplied by `factor`, to convert the unit.
    pub(super) fn scaled(&self, factor: f64) -> Series {
        self.values.iter().map(|value| value * factor).collect()
    }

    /// This series compared with a peer's in the same rounds; `None` if there was no round.
    pub(super) fn against(&self, name: &str, peer: &Series) -> Option<Against> {
        let ratio = Ratio::from_rounds(&self.values, &peer.values);
        Some(Against { name: name.into(), value: peer.value()?, ratio })
    }
}

impl FromIterator<Sample> for Series {
    /// The samples of one contender, round by round.
    fn from_iter<I: IntoIterator<Item = Sample>>(samples: I) -> Series {
        let mut series = Series::default();
        samples.into_iter().for_each(|sample| series.push(sample));
        series
    }
}

impl FromIterator<f64> for Series {
    /// The figures of rounds that were measured elsewhere.
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Series {
        Series { values: values.into_iter().collect(), ..Series::default() }
    }
}

/// Measures all contenders in every round, as [`take_turns`] does, and returns a series for each, in the order of
/// `contenders`.
pub(super) fn play_rounds<C>(
    rounds: u32,
    contenders: &mut [C],
    measure: impl FnMut(&mut C) -> Result<Sample, CliError>,
) -> Result<Vec<Series>, CliError> {
    Ok(take_turns(rounds, contenders, measure)?.into_iter().map(Series::from_iter).collect())
}

/// Measures all contenders in every round, and returns the samples of each, round by round, in the order of
/// `contenders`.
///
/// Every other round goes backwards, so that no contender is always measured right after the same other one, and a
/// machine that becomes steadily slower or faster favours none. A round that Ctrl-C interrupts counts for no
/// contender. It is not a failure: the samples of the rounds before it are returned.
pub(super) fn take_turns<C, S>(
    rounds: u32,
    contenders: &mut [C],
    mut measure: impl FnMut(&mut C) -> Result<S, CliError>,
) -> Result<Vec<Vec<S>>, CliError> {
    let mut all: Vec<Vec<S>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut samples = Vec::with_capacity(contenders.len());
        for turn in 0..contenders.len() {
            let at = if round % 2 == 0 { turn } else { contenders.len() - 1 - turn };
            if stop::pressed() {
                return Ok(all);
            }
            match measure(&mut contenders[at]) {
                Err(CliError::Interrupted) => return Ok(all),
                sample => samples.push((at, sample?)),
            }
        }
        if stop::pressed() {
            return Ok(all);
        }
        samples.into_iter().for_each(|(at, sample)| all[at].push(sample));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{CliError, Sample, Series, play_rounds};

    #[test]
    fn rounds_go_there_and_back() {
        let mut seen = String::new();
        let all = play_rounds(3, &mut ['a', 'b', 'c'], |name| {
            seen.push(*name);
            Ok(Sample::figure(seen.len() as f64))
        })
        .expect("nothing fails");
        assert_eq!(seen, "abccbaabc");
        let values: Vec<&[f64]> = all.iter().map(|series| &series.values[..]).collect();
        assert_eq!(values, [[1.0, 6.0, 7.0], [2.0, 5.0, 8.0], [3.0, 4.0, 9.0]]);
    }

    #[test]
    fn an_interrupted_round_counts_for_none() {
        let mut turns = 0;
        let all = play_rounds(3, &mut [(), ()], |()| {
            turns += 1;
            if turns == 4 { Err(CliError::Interrupted) } else { Ok(Sample::figure(f64::from(turns))) }
        })
        .expect("Ctrl-C is no failure");
        assert_eq!((&all[0].values[..], &all[1].values[..], turns), (&[1.0][..], &[2.0][..], 4));
    }

    #[test]
    fn times_count_by_their_middle_in_a_round_and_all_together_in_the_row() {
        let mut rounds = [vec![1.0, 2.0, 9.0], vec![3.0, 4.0, 5.0]].into_iter();
        let all =
            play_rounds(2, &mut [()], |()| Ok(Sample::times(rounds.next().expect("there are two rounds"))))
                .expect("nothing fails");
        assert_eq!(all[0].values, [2.0, 4.0]);
        let [p50, p99, p999] = all[0].percentiles().expect("there are times");
        assert!(p50 == 3.5 && p50 < p99 && p99 < p999 && p999 < 9.0, "{p50} {p99} {p999}");
        assert_eq!(all[0].value(), Some(3.5));
    }

    #[test]
    fn without_a_round_there_is_no_figure() {
        let all = play_rounds(0, &mut [1, 2], |_| Ok(Sample::figure(1.0))).expect("nothing fails");
        assert_eq!((all[0].value(), all[0].percentiles()), (None, None));
        assert!(all[0].against("other", &all[1]).is_none());
    }

    #[test]
    fn a_peer_that_gives_nothing_has_a_figure_and_no_ratio() {
        let (ours, peer) = (Series::from_iter([1.0, 2.0, 3.0]), Series::from_iter([0.0; 3]));
        let against = ours.against("peer", &peer).expect("there are rounds");
        assert_eq!((against.value, against.ratio), (0.0, None));
    }
}
