//! What has failed in published systems and must not fail here, and how sessions end. There is one named test per
//! subject and device.
//!
//! The tests of devices that this machine does not have are ignored by name. The comment above each test says which
//! defect it catches.

#[macro_use]
mod common;

mod apart;
mod asks;
mod cells;
mod counts;
mod ends;
mod fences;
mod futures;
mod host_regions;
mod hostile;
mod imports;
mod iterators;
mod packed;
mod payload;
mod pressure;
#[path = "../pretend/mod.rs"]
mod pretend;
mod prints;
mod rights;
mod runs;
mod shares;
mod spread;
mod tenants;
mod torn;
mod trees;
mod turns;
mod wide;

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use pelton::device::open;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    pelton::device::process::serve_if_asked();
    macro_rules! themes {
        ($($theme:ident),* $(,)?) => {
            [$((stringify!($theme), $theme::TESTS)),*]
        };
    }
    let themes = themes![
        asks,
        cells,
        counts,
        ends,
        fences,
        futures,
        host_regions,
        hostile,
        imports,
        iterators,
        packed,
        payload,
        pressure,
        prints,
        rights,
        runs,
        shares,
        spread,
        tenants,
        torn,
        trees,
        turns,
        wide,
    ];
    let mut all = Vec::new();
    for name in ["cpu", "reference", "apart", "process:cpu", "cuda"] {
        // All tests of a device share it, so that each kernel is compiled once.
        let device = if name == "apart" { Some(apart::open()) } else { open(name).ok() };
        for (theme, tests) in themes {
            all.extend(tests.iter().map(|test| common::trial(theme, *test, name, device.clone())));
        }
    }
    let known: Vec<String> = themes
        .iter()
        .flat_map(|(theme, tests)| tests.iter().map(move |(name, _)| format!("{theme}::{name}")))
        .collect();
    all.push(common::documented(known));
    all.push(common::alone("ends::lost_by_its_device", ends::lost_by_its_device));
    all.push(common::alone("ends::a_lost_session_says_why", ends::a_lost_session_says_why));
    run(&Arguments::from_args(), all).exit_code()
}
