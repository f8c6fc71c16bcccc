//! The words that stand for values in the text of a `Spec`.

use std::time::Duration;

use pelton_ir::types::{Access, Type};

use crate::kernel::handler::{Class, Visible, Width};
use crate::kernel::placement::Placement;
use crate::kernel::spec::{Claim, Io, Lifetime, Recovery, Report, SlotBody, TaskOrder, Telemetry};
use crate::kernel::tenant::{RegionMemory, Retention};
use crate::protocol::Priority;

/// The values of an axis, each with its word.
pub(super) type WordList<T> = &'static [(&'static str, T)];

pub(super) const LIFETIME: WordList<Lifetime> =
    &[("persistent", Lifetime::Persistent), ("drain", Lifetime::Drain)];
pub(super) const PLACEMENT: WordList<Placement> = &[
    (Placement::Near.word(), Placement::Near),
    (Placement::Far.word(), Placement::Far),
    (Placement::Both.word(), Placement::Both),
];
pub(super) const CLAIM: WordList<Claim> = &[("owned", Claim::Owned), ("priority", Claim::PRIORITY)];
pub(super) const BODY: WordList<SlotBody> = &[("dispatch", SlotBody::Dispatch), ("fused", SlotBody::Fused)];
pub(super) const IO: WordList<Io> = &[("off", Io::Off), ("polled", Io::Polled), ("on_miss", Io::OnMiss)];
pub(super) const REPORT: WordList<Report> = &[("full", Report::Full), ("control", Report::Control)];
pub(super) const TELEMETRY: WordList<Telemetry> =
    &[("sampled", Telemetry::Sampled), ("full", Telemetry::Full), ("off", Telemetry::Off)];
pub(super) const RECOVERY: WordList<Recovery> = &[("off", Recovery::Off), ("on", Recovery::On)];
pub(super) const ORDER: WordList<TaskOrder> = &[("free", TaskOrder::Free), ("serial", TaskOrder::Serial)];
pub(super) const WIDTH: WordList<Width> = &[("lane", Width::Lane), ("group", Width::Group)];
pub(super) const VISIBLE: WordList<Visible> = &[("memory", Visible::Memory), ("result", Visible::Result)];
pub(super) const CLASS: WordList<Class> = &[
    ("restart", Class::Restart),
    ("once", Class::Once),
    ("idempotent", Class::Idempotent),
    ("commuting", Class::Commuting),
];
pub(super) const TYPE: WordList<Type> = &[
    (Type::U32.word(), Type::U32),
    (Type::I32.word(), Type::I32),
    (Type::U64.word(), Type::U64),
    (Type::F32.word(), Type::F32),
];
pub(super) const ACCESS: WordList<Access> = &[
    (Access::Read.word(), Access::Read),
    (Access::ReadWrite.word(), Access::ReadWrite),
    (Access::Write.word(), Access::Write),
];
pub(super) const RETENTION: WordList<Retention> =
    &[("volatile", Retention::Volatile), ("kept", Retention::Kept)];
pub(super) const REGION_MEMORY: WordList<RegionMemory> =
    &[("device", RegionMemory::Device), ("host", RegionMemory::Host)];

pub(super) const PRIORITY: WordList<Priority> = &[
    ("critical", Priority::Critical),
    ("high", Priority::High),
    ("normal", Priority::Normal),
    ("low", Priority::Low),
    ("idle", Priority::Idle),
];

/// Returns the word that stands for a value.
pub(super) fn word_of<T: PartialEq>(words: WordList<T>, value: &T) -> &'static str {
    words.iter().find(|(_, of)| of == value).map_or("", |(word, _)| word)
}

/// The units of time, each with its nanoseconds, from the greatest to the smallest.
const UNITS: &[(&str, u128)] =
    &[("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Returns a duration as text, in the greatest unit up to seconds of which it is a whole number.
pub(super) fn print_duration(time: Duration) -> String {
    let ns = time.as_nanos();
    let whole = UNITS[1..].iter().find(|(_, of)| ns.is_multiple_of(*of));
    whole.map_or_else(|| format!("{ns}ns"), |(unit, of)| format!("{}{unit}", ns / of))
}

/// Parses a duration: digits, optionally a point and more digits, and a unit.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write a number and ns, us, ms, s or m, as in 10s");
    let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == &text[at..]).ok_or_else(wrong)?;
    let (whole, part) = text[..at].trim_end().split_once('.').unwrap_or((text[..at].trim_end(), ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return Err(wrong());
    }
    let long = || format!("`{text}` is too long a duration");
    let whole: u128 = whole.parse().map_err(|_| long())?;
    let mut ns = whole.checked_mul(*scale).ok_or_else(long)?;
    let mut unit = *scale;
    for digit in part.bytes() {
        unit /= 10;
        ns = ns.saturating_add(u128::from(digit - b'0') * unit);
    }
    let seconds = u64::try_from(ns / 1_000_000_000).map_err(|_| long())?;
    Ok(Duration::new(seconds, (ns % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        for (text, ns) in
            [("10s", 10_000_000_000), ("1.5 ms", 1_500_000), ("2m", 120_000_000_000), ("0.000000001s", 1)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for time in
            [Duration::MAX, Duration::ZERO, Duration::from_nanos(1_000_001), Duration::from_millis(90)]
        {
            assert_eq!(parse_duration(&print_duration(time)), Ok(time));
        }
        for bad in [
            "",
            "10",
            "s",
            "-1s",
            "1h",
            "1e4s",
            "1..5s",
            ".5s",
            "99999999999999999999s",
            "999999999999999999999999999999999999999s",
            "18446744073709551615m",
            "1 é",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
