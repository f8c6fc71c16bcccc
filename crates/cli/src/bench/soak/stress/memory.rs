//! How much memory of the host the process uses.

use std::fs;

use crate::error::CliError;

/// By how many bytes the process may grow after the beginning of a load.
const MOST_GROWTH: u64 = 64 << 20;

/// The number of bytes of a page, as `/proc` counts them. Where pages are larger, the growth is underestimated.
const PAGE: u64 = 4096;

/// Watches how much memory the process uses.
#[derive(Default)]
pub(super) struct MemoryWatch {
    /// What the process used when all of its threads had begun to work.
    first: Option<u64>,
    /// The most that it has used since.
    most: u64,
}

impl MemoryWatch {
    /// Looks at the memory of the process. Fails if it has grown too much since the first look.
    pub(super) fn look(&mut self) -> Result<(), CliError> {
        resident_bytes().map_or(Ok(()), |now| self.note(now))
    }

    /// Notes how many bytes the process uses.
    fn note(&mut self, now: u64) -> Result<(), CliError> {
        let first = *self.first.get_or_insert(now);
        self.most = self.most.max(now);
        if now > first + MOST_GROWTH {
            let (now, first) = (now >> 20, first >> 20);
            let what = format!("the process uses {now} MiB of memory, and used {first} MiB at the beginning");
            return Err(CliError::Wrong(what));
        }
        Ok(())
    }

    /// By how many bytes the process has grown at most, if the system says so.
    pub(super) fn growth(&self) -> Option<u64> {
        self.first.map(|first| self.most.saturating_sub(first))
    }
}

/// The number of bytes that the process has in memory, or `None` if the system does not say.
fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_grows_too_much_is_found() {
        let mut watch = MemoryWatch::default();
        for now in [100 << 20, 90 << 20, 164 << 20] {
            watch.note(now).expect("it has hardly grown");
        }
        assert_eq!(watch.growth(), Some(MOST_GROWTH));
        let what = watch.note(165 << 20).expect_err("it has grown too much").to_string();
        assert_eq!(what, "the process uses 165 MiB of memory, and used 100 MiB at the beginning");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_used_is_seen() {
        let used = vec![1u8; 128 << 20];
        assert!(resident_bytes().is_some_and(|now| now >= used.len() as u64));
    }
}
